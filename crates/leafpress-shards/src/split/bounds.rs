//! Bounds of ranges, from a sample of the keys.
//!
//! The sample is drawn without replacement, each key with the same chance, so that the order of the
//! input does not matter. With 100,000 keys, the share of a part is off by at most about half a percent
//! of all rows (three standard deviations of a quantile).

use leafpress_format::Value;

use crate::key::Key;

const SAMPLE_KEYS: usize = 100_000;

/// Keys drawn from all that were given.
pub struct Sample {
    keys: Vec<Key>,
    seen: usize,
    random: fastrand::Rng,
}

impl Sample {
    /// An empty sample. The same keys give the same sample.
    pub fn new() -> Self {
        Self { keys: Vec::new(), seen: 0, random: fastrand::Rng::with_seed(0) }
    }

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

    /// Bounds of up to this number of parts; fewer where keys repeat so often that a part would be
    /// empty.
    pub fn bounds(mut self, parts: usize) -> Vec<Key> {
        self.keys.sort_by(|one, other| one.compare(&other.value()));
        let mut bounds: Vec<Key> = Vec::new();
        let Some(mut last) = self.keys.first().cloned() else { return bounds };
        for part in 1..parts {
            let key = &self.keys[part * self.keys.len() / parts];
            if last.compare(&key.value()).is_lt() {
                last = key.clone();
                bounds.push(key.clone());
            }
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds_of(keys: impl Iterator<Item = i64>, parts: usize) -> Vec<Key> {
        let mut sample = Sample::new();
        keys.for_each(|key| sample.add(&Value::Integer(key)));
        sample.bounds(parts)
    }

    #[test]
    fn few_keys_are_split_exactly() {
        let expected = [25, 50, 75].map(Key::Integer);
        assert_eq!(bounds_of((0..100).rev(), 4), expected);
        assert_eq!(bounds_of(0..0, 4), []);
        assert_eq!(bounds_of([7; 50].into_iter(), 4), []);
        assert_eq!(bounds_of([1, 2].into_iter(), 4), [Key::Integer(2)]);
    }

    #[test]
    fn many_keys_are_split_nearly_as_well() {
        let all = 1_000_000;
        for (part, bound) in bounds_of(0..all, 10).iter().enumerate() {
            let Key::Integer(bound) = bound else { panic!("{bound:?}") };
            let ideal = (part as i64 + 1) * all / 10;
            assert!((bound - ideal).abs() < all / 100, "{bound} for {ideal}");
        }
    }
}
