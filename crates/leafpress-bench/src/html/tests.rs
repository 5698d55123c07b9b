//! What must hold of every page, whatever is in the report.

use super::page;
use crate::made_up;

#[test]
fn the_tour_is_all_on_the_page() {
    let report = made_up::tour();
    let page = page(&report);
    for rung in &report.rungs {
        assert!(page.contains(&rung.label), "{}", rung.name);
    }
}
