#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fulmar_fuzz::program::stream(data));
