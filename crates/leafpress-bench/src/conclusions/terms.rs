//! Names of rungs that no reader can guess, and what they mean.
//!
//! A name is explained where it stands in a sentence; charts and tables show it alone.
//!
//! Must never: explain a name that no experiment has.

/// Ends of names, and what each means.
const TERMS: [(&str, &str); 10] = [
    (
        "presorted by 8 bytes",
        "each batch sorted by the first 8 bytes of its keys before it is inserted",
    ),
    ("presorted by the whole key", "each batch sorted by its keys before it is inserted"),
    ("pressed in one load", "whole pages written in the order of the keys, past SQL"),
    ("pressed", "whole pages written in the order of the keys, past SQL"),
    (", prepared", "one prepared statement for all rows, in one transaction"),
    ("Writer, insert_many", "all rows in one call"),
    ("Writer, 1 caller", "one thread that waits for each answer"),
    ("Writer, 64 callers", "64 threads, each of which waits for its own answer"),
    ("Writer, a call a cycle", "one thread that waits for each answer"),
    ("Writer, 16 cycles in flight", "one thread that has asked for 16 at a time"),
];

/// The meaning of a name, if it is one of these.
pub(super) fn meaning(label: &str) -> Option<&'static str> {
    TERMS.iter().find(|(end, _)| label.ends_with(end)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{BenchOptions, Experiment, Size};
    use crate::plan::plan;

    #[test]
    fn every_term_is_the_name_of_a_rung() {
        let experiments = Experiment::ALL.to_vec();
        let options = BenchOptions { experiments, ..BenchOptions::sized(Size::Usual) };
        let groups = plan(&options).expect("a plan");
        let labels: Vec<String> =
            groups.iter().flat_map(|group| &group.kinds).map(|kind| kind.label()).collect();
        for (end, _) in TERMS {
            assert!(labels.iter().any(|label| label.ends_with(end)), "{end}: {labels:?}");
        }
    }
}
