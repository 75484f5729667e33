//! Whoever reads what a program prints may have read enough: `fulmar profiles | head`.

use std::panic::{self, PanicHookInfo};

/// From here on a panic of `println!` and its like for want of a reader ends the thread, as ever, but without
/// a word: it is no defect. Everything is dropped on the way, network namespaces among it, as it would not be
/// by a signal.
pub fn end_quietly() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_for_want_of_a_reader(info) {
            usual(info);
        }
    }));
}

/// By its text, for the standard library says it in no other way: "failed printing to stdout: Broken pipe (os
/// error 32)".
fn is_for_want_of_a_reader(info: &PanicHookInfo<'_>) -> bool {
    let text = info.payload().downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.contains("Broken pipe"))
}
