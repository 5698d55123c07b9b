//! Panics of the crates that read Parquet and Arrow, made errors.
//!
//! Those crates check what they read, but not everywhere: offsets and lengths
//! of a damaged file can still meet an assertion or an index out of bounds.
//! load must not die of its input, so each call into them that looks at
//! unchecked bytes goes through here. What the call was about to return is
//! dropped with the unwinding, and nothing else was being changed, so no half-made state
//! is seen afterwards. The error is the one message: the hook that prints panics is silent meanwhile,
//! in this thread.
//!
//! Must never: stand around code of our own.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::words::panic_text;

thread_local! {
    /// True while a panic of this thread is caught here.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Puts a hook before the one that prints panics, once in the process.
static HOOK: Once = Once::new();

fn put_hook() {
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.try_with(Cell::get).unwrap_or(false) {
                former(panic);
            }
        }));
    });
}

/// The result of a call, or why it failed, be it an error or a panic.
pub(super) fn guarded<T, E: std::fmt::Display>(
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    put_hook();
    let before = IS_GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(before);
    match result {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(panic_text(&*panic).unwrap_or("it cannot be read").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the process that panics.
    const CHILD: &str = "LEAFPRESS_TEST_PANICS";

    #[test]
    fn a_panic_is_an_error_and_prints_nothing() {
        if std::env::var_os(CHILD).is_some() {
            let nested = || guarded(|| -> Result<(), String> { panic!("hushed") });
            let result = guarded(|| nested().map_err(|reason| format!("{reason}, too")));
            assert_eq!(result, Err("hushed, too".to_owned()));
            assert!(std::thread::spawn(|| panic!("told")).join().is_err());
            return;
        }
        let this = std::env::current_exe().unwrap();
        let mut child = Command::new(this);
        child.args(["--nocapture", "--exact"]).env(CHILD, "1");
        let name = "input::arrow::guard::tests::a_panic_is_an_error_and_prints_nothing";
        let done = child.arg(name).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !said.contains("hushed"), "{said}");
        assert!(said.contains("told"), "others are printed: {said}");
    }
}
