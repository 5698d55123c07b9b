//! Times that jobs waited and ran, in milliseconds, and their stored form.
//!
//! A quantile is at most one eighth too high. Stored as JSON text, by the buckets' upper ends,
//! those that are empty left out: `{"sum_ms":57,"max_ms":33,"at_most_ms":{"4":6,"35":1}}`. The
//! histograms of several processes and minutes add up.
//!
//! Must never: change the form, which stands in databases.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Counts of times in milliseconds.
pub(in crate::queue) type Histogram = crate::histogram::Histogram<3>;

/// The stored form.
#[expect(clippy::struct_field_names, reason = "the keys of the JSON say their unit")]
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    sum_ms: u64,
    max_ms: u64,
    at_most_ms: BTreeMap<u64, u64>,
}

pub(super) fn serialize<S: Serializer>(times: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    let at_most_ms = times.counts().collect();
    Stored { sum_ms: times.sum, max_ms: times.max, at_most_ms }.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
    let stored = Stored::deserialize(from)?;
    let mut times = Histogram::default();
    times.add_counts(stored.at_most_ms, stored.sum_ms, stored.max_ms);
    Ok(times)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(some: &Histogram) -> String {
        let mut json = Vec::new();
        serialize(some, &mut serde_json::Serializer::new(&mut json)).expect("numbers have a text");
        String::from_utf8(json).expect("JSON is UTF-8")
    }

    fn read(json: &str) -> Histogram {
        deserialize(&mut serde_json::Deserializer::from_str(json)).expect("a histogram")
    }

    #[test]
    fn the_text_is_readable() {
        let mut some = Histogram::default();
        some.record(4, 6);
        some.record(33, 1);
        assert_eq!(stored(&some), r#"{"sum_ms":57,"max_ms":33,"at_most_ms":{"4":6,"35":1}}"#);
        assert_eq!([some.quantile(0.5), some.quantile(0.99)], [4, 33]);
    }

    #[test]
    fn nothing_is_lost_out_of_range_or_overflows() {
        let mut some = Histogram::default();
        some.record(u64::MAX, 2);
        assert_eq!((some.count, some.max, read(&stored(&some)) == some), (2, u64::MAX, true));
        let full = r#"{"sum_ms":1,"at_most_ms":{"16":18446744073709551615,"17":1}}"#;
        let mut full = read(full);
        full.add(&full.clone());
        assert_eq!((full.count, full.count_at_most(u64::MAX)), (u64::MAX, u64::MAX));
    }

    proptest! {
        #[test]
        fn it_is_read_as_it_was_stored(times_ms in prop::collection::vec(0..1_u64 << 40, 0..50)) {
            let mut some = Histogram::default();
            for &time_ms in &times_ms {
                some.record(time_ms, 1);
            }
            prop_assert_eq!(read(&stored(&some)), some);
        }
    }
}
