//! Any bytes make a schema and rows: what is pressed of them must be what
//! SQLite stores. What is compared is listed at `check_case`.
#![no_main]

use leafpress_testing::{Recipe, check_case};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|recipe: Recipe| {
    check_case(&recipe.resolve());
});
