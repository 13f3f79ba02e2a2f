//! What handlers of requests with texts need.

use crate::settings::TextSettings;
use frontend::http::Service;

/// What all handlers need, and what holds at these addresses.
pub struct TextService<'a> {
    /// What all handlers need.
    pub service: &'a Service,
    /// What holds at these addresses.
    pub texts: &'a TextSettings,
}

/// What takes a service takes this one.
impl std::ops::Deref for TextService<'_> {
    type Target = Service;

    fn deref(&self) -> &Service {
        self.service
    }
}
