//! Bounds of ranges, from a sample of the keys.
//!
//! The sample is drawn without replacement, each key with the same chance, so that the order of the
//! input does not matter. With 100,000 keys, the share of a part is off by at most about half a percent
//! of all rows (three standard deviations of a quantile).

use leafpress_format::Value;
use serde::{Deserialize, Serialize};

use crate::key::Key;

const SAMPLE_KEYS: usize = 100_000;

/// Keys drawn from all that were given. As JSON it goes from one machine to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    keys: Vec<Key>,
    seen: usize,
    #[serde(skip, default = "random")]
    random: fastrand::Rng,
}

impl Default for Sample {
    fn default() -> Self {
        Self { keys: Vec::new(), seen: 0, random: random() }
    }
}

/// A generator with a fixed seed: the same keys give the same sample.
fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(0)
}

impl Sample {
    /// Gives a key its chance (Vitter's algorithm R).
    pub fn add(&mut self, key: &Value<'_>) {
        self.seen += 1;
        if self.keys.len() < SAMPLE_KEYS {
            self.keys.push(Key::from(*key));
            return;
        }
        let place = self.random.usize(..self.seen);
        if let Some(slot) = self.keys.get_mut(place) {
            *slot = Key::from(*key);
        }
    }
}

/// Bounds of up to this number of parts for all rows that were sampled; fewer where there are fewer keys.
/// A key with more rows than a part should have gets a part of its own, and the others share the rest.
pub fn bounds_of(samples: &[Sample], parts: usize) -> Vec<Key> {
    let keys = rows_of_keys(samples);
    let most = even_share(&keys, parts);
    let is_large = |rows: f64| rows > most;
    let mut large_left = keys.iter().filter(|(_, rows)| is_large(*rows)).count();
    let small = keys.iter().map(|(_, rows)| *rows).filter(|rows| !is_large(*rows));
    let mut small_rows_left: f64 = small.sum();
    let mut bounds: Vec<Key> = Vec::new();
    // The part that is being filled.
    let (mut rows_of_part, mut has_large) = (0.0, false);
    for (key, rows) in keys {
        let parts_left = parts.saturating_sub(bounds.len());
        let parts_for_small = parts_left.saturating_sub(large_left);
        let ends = if is_large(rows) {
            large_left -= 1;
            parts_left > 1
        } else {
            let is_full = rows_of_part + rows / 2.0 > small_rows_left / parts_for_small as f64;
            parts_for_small > 1 && (has_large || is_full)
        };
        if ends && rows_of_part > 0.0 {
            bounds.push(key.clone());
            small_rows_left -= if has_large { 0.0 } else { rows_of_part };
            rows_of_part = 0.0;
        }
        rows_of_part += rows;
        has_large = is_large(rows);
    }
    bounds
}

/// The keys in their order, and the number of rows that each stands for.
fn rows_of_keys(samples: &[Sample]) -> Vec<(&Key, f64)> {
    // A key stands for as many rows as its sample has seen for each key that it kept.
    let weigh = |sample: &Sample| sample.seen as f64 / sample.keys.len() as f64;
    let weighed = samples.iter().map(|sample| (sample, weigh(sample)));
    let mut keys: Vec<(&Key, f64)> = weighed
        .flat_map(|(sample, weight)| sample.keys.iter().map(move |key| (key, weight)))
        .collect();
    keys.sort_by(|one, other| one.0.compare(&other.0.value()));
    let same = keys.chunk_by(|one, other| one.0.compare(&other.0.value()).is_eq());
    same.map(|same| (same[0].0, same.iter().map(|(_, rows)| rows).sum())).collect()
}

/// The rows that a part has if those are shared evenly that are not of a key with more of them.
fn even_share(keys: &[(&Key, f64)], parts: usize) -> f64 {
    let mut most = f64::INFINITY;
    loop {
        let large = keys.iter().filter(|(_, rows)| *rows > most).count();
        let small: f64 = keys.iter().map(|(_, rows)| *rows).filter(|rows| *rows <= most).sum();
        let even = small / parts.saturating_sub(large).max(1) as f64;
        if even >= most {
            return most;
        }
        most = even;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(keys: impl Iterator<Item = i64>) -> Sample {
        let mut sample = Sample::default();
        keys.for_each(|key| sample.add(&Value::Integer(key)));
        sample
    }

    fn split(keys: impl Iterator<Item = i64>, parts: usize) -> Vec<Key> {
        bounds_of(&[sample(keys)], parts)
    }

    #[test]
    fn few_keys_are_split_exactly() {
        let expected = [25, 50, 75].map(Key::Integer);
        assert_eq!(split((0..100).rev(), 4), expected);
        assert_eq!(split(0..0, 4), []);
        assert_eq!(split([7; 50].into_iter(), 4), []);
        assert_eq!(split([1, 2].into_iter(), 4), [Key::Integer(2)]);
    }

    #[test]
    fn a_key_with_most_rows_leaves_parts_to_the_others() {
        for most in [0, 150, 299] {
            let keys = || (0..300).chain(std::iter::repeat_n(most, 2_700));
            let bounds = split(keys(), 8);
            assert_eq!(bounds.len(), 7, "{bounds:?}");
            let part_of =
                |key| bounds.iter().filter(|it| it.compare(&Value::Integer(key)).is_le()).count();
            let mut rows = [0; 8];
            keys().for_each(|key| rows[part_of(key)] += 1);
            rows.sort_unstable();
            assert!(rows[0] >= 10 && rows[6] < 60 && rows[7] == 2_701, "{rows:?}");
        }
    }

    #[test]
    fn many_keys_are_split_nearly_as_well() {
        let all = 1_000_000;
        for (part, bound) in split(0..all, 10).iter().enumerate() {
            let Key::Integer(bound) = bound else { panic!("{bound:?}") };
            let ideal = (part as i64 + 1) * all / 10;
            assert!((bound - ideal).abs() < all / 100, "{bound} for {ideal}");
        }
    }

    #[test]
    fn samples_count_as_many_rows_as_they_have_seen() {
        let samples = [sample(0..900_000), sample(900_000..1_000_000), sample(0..0)];
        let text = serde_json::to_string(&samples).expect("JSON");
        let samples: Vec<Sample> = serde_json::from_str(&text).expect("samples");
        for (part, bound) in bounds_of(&samples, 4).iter().enumerate() {
            let Key::Integer(bound) = bound else { panic!("{bound:?}") };
            assert!((bound - (part as i64 + 1) * 250_000).abs() < 10_000, "{bound}");
        }
    }
}
