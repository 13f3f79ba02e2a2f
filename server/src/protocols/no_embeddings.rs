//! In the place of `embeddings`, where it was left out of the build: its addresses are nobody's, and its flags are
//! refused.

/// No address.
pub type Texts = ();

/// No address.
pub fn texts(_: settings::TextSettings) {}

/// Flags that are known, so that they can be refused by the name of the feature.
pub mod settings {
    use configuration::{Flag, Sources};

    /// The flags.
    #[rustfmt::skip]
    pub const FLAGS: &[Flag] = &[
        Flag::value("served-model-name", "", "Of what was left out of this build").named("NAME"),
        Flag::boolean("auto-truncate", "true", "Of what was left out of this build"),
        Flag::boolean("tei-root", "false", "Of what was left out of this build"),
        Flag::value("tei-batch-status", "422", "Of what was left out of this build").named("STATUS"),
    ];

    /// Nothing.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TextSettings(());

    /// Nothing.
    pub fn resolve(_: &Sources, _: &mut Vec<String>) -> TextSettings {
        TextSettings(())
    }
}
