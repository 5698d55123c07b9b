//! The main property: what is pressed is what SQLite would have stored.
//!
//! Checked for every case: `integrity_check`, schema, rows and index entries
//! by storage class and value, and each stored record byte for byte.
//! `PROPTEST_CASES` says how many (256 if not given; a quarter of it where the
//! file is changed afterwards).

use leafpress_testing::{check_case, check_usable, strategy};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn config(one_in: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.div_ceil(one_in),
        max_shrink_iters: 5_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..config
    }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn pressed_equals_inserted(recipe in strategy::recipes()) {
        check_case(&recipe.resolve());
    }
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn sqlite_goes_on_using_the_file(recipe in strategy::recipes(), seed: u64) {
        check_usable(&recipe.resolve(), seed);
    }
}
