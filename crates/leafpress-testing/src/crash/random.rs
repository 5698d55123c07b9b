//! Numbers that look random and follow from a seed alone.
//!
//! A failure is repeated by its seed, years later and on another machine: so
//! the generator (`SplitMix64`) is written down here and belongs to no
//! dependency, which might change it.

/// A stream of numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of several numbers together, each of which matters.
    pub fn of(parts: &[u64]) -> Self {
        let mut mixed = Self(0x5EED);
        for part in parts {
            mixed.0 = mixed.number() ^ part;
        }
        Self(mixed.number())
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.number() % 100 < u64::from(percent)
    }

    /// Returns one of the choices.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut random = Random::new(1);
        assert_eq!(random.number(), 0x910A_2DEC_8902_5CC1);
        let [mut first, mut second] = [[1, 2], [2, 1]].map(|parts| Random::of(&parts));
        assert_ne!(first.number(), second.number());
    }
}
