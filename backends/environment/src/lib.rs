//! Variables of this process that native libraries read when they are opened. They must be set before the process has
//! a second thread: some libraries look at them at any time, and the C library does not guard them. And the process's
//! heap, which it shares with these libraries, blocks of it that there are not, the signals that ask it for nothing,
//! and quotients that do not fit.

mod blocks;
mod heap;
mod idle_signals;
mod own_heap;
mod quotients;

pub use blocks::refuse_blocks_beyond;
pub use heap::{OWN_PAGES, give_back_memory, keep_large_blocks_apart};
pub use idle_signals::{IDLE_SIGNALS, ignore_idle_signals, real_time_signals};
pub use own_heap::OwnHeap;
pub use quotients::wrap_quotients;

/// Sets a variable that is not set, while there is no second thread; else does nothing. To be called first thing in
/// `main`. A value that the user has set stays.
pub fn set_default(name: &str, value: &str) {
    if std::env::var_os(name).is_none() && is_only_thread() {
        // SAFETY: changing the environment is a race only with other threads that read it, and there are
        // none: this one has just counted, and nobody else could start one.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Is a switch that a library reads set, and off: `0`, or `false` in any case?
pub fn is_off(name: &str) -> bool {
    let text = std::env::var(name).unwrap_or_default();
    ["0", "false"].contains(&&*text.to_ascii_lowercase())
}

/// Is this the process's only thread, as far as can be known?
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|it| it.count() == 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_second_thread_is_noticed() {
        // Tests run on threads of their own beside the main one.
        assert!(!super::is_only_thread());
        super::set_default("MUSTER_OF_A_TEST", "1");
        assert_eq!(std::env::var_os("MUSTER_OF_A_TEST"), None);
        assert!(!super::is_off("MUSTER_OF_A_TEST"));
    }
}
