//! Runs of one kind with ever new seeds, on all cores, until enough images
//! were opened; and the table of what was found.
//!
//! | variable | |
//! |---|---|
//! | `LEAFPRESS_CRASH_SEED` | run this seed only, with more images at each point |
//! | `LEAFPRESS_CRASH_BASE` | begin at another seed: other runs and power cuts than the usual ones |
//! | `LEAFPRESS_CRASH_IMAGES` | this many images in all, in the place of the bounded number of `make test` |
//! | `LEAFPRESS_CRASH_TABLE` | add what was found to the table in this file |
//!
//! The order in which seeds end is the machine's; what each finds is not.
//!
//! A *control* is a survey that must find something: a disk that lies, a safeguard taken out.
//! It goes on until it has ([`Budget::until`]), whatever the seed it begins at.
//!
//! Must never: end a control early that a few seeds more would have satisfied, or search
//! for ever.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::check::Tally;
use super::simulate::{Effort, Outcome, Simulator};

/// Time between two lines of progress, for surveys that report.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Seeds that belong to one base: more than a survey runs through.
const SEEDS_PER_BASE: u64 = 1_000_000;

/// A control gives up after this many times the images that it is asked for, and no
/// fewer than [`SEARCH_IMAGES_MIN`].
const SEARCH_FACTOR: u64 = 20;
const SEARCH_IMAGES_MIN: u64 = 50_000;

/// Amount of work, and the first seed.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Images to open, at least.
    pub images: u64,
    /// The only seed, if there is to be one.
    seed: Option<u64>,
    first_seed: u64,
    /// The finding without which a control does not end.
    wanted: Option<fn(&Outcome) -> bool>,
    reports: bool,
    effort: Effort,
}

impl Budget {
    /// This many images, unless the environment says otherwise. `share` is this
    /// survey's part, in thousandths, of what the environment asks for.
    ///
    /// # Panics
    /// If the environment holds something else than numbers.
    pub fn new(images: u64, share: u64) -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text} is no number")))
        };
        let asked = number("LEAFPRESS_CRASH_IMAGES").map(|images| images * share / 1000);
        let seed = number("LEAFPRESS_CRASH_SEED");
        Self {
            images: asked.unwrap_or(images),
            seed,
            first_seed: seed.unwrap_or_else(|| first_seed(number("LEAFPRESS_CRASH_BASE"))),
            wanted: None,
            reports: asked.is_some(),
            effort: Effort {
                images_per_point: match (seed, asked) {
                    (Some(_), _) => 200,
                    (None, Some(_)) => 10,
                    (None, None) => 5,
                },
                recoveries_percent: 10,
                images_per_recovery: 4,
            },
        }
    }

    /// Makes it the budget of a control: after its images it goes on with further seeds
    /// until this holds, within a bound. A single seed, if the environment names one, is
    /// where it begins.
    #[must_use]
    pub fn until(self, wanted: fn(&Outcome) -> bool) -> Self {
        Self { wanted: Some(wanted), seed: None, ..self }
    }

    /// The seeds that it runs through, in their order.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.first_seed..
    }

    /// Returns true if one run is repeated, which need not show all that a survey shows.
    pub fn repeats_one_run(&self) -> bool {
        self.seed.is_some()
    }

    fn is_done(&self, whole: &Outcome) -> bool {
        let images = whole.images();
        let searched = (self.images * SEARCH_FACTOR).max(SEARCH_IMAGES_MIN);
        images >= self.images
            && (self.wanted.is_none_or(|wanted| wanted(whole)) || images >= searched)
    }

    /// Calls `run` with seed after seed until enough images were opened, and what is
    /// wanted was found.
    ///
    /// # Panics
    /// If `run` does.
    pub fn survey(
        &self,
        name: &str,
        run: impl Fn(&mut Simulator, u64, Effort) -> Outcome + Sync,
    ) -> Outcome {
        let started = Instant::now();
        let next_seed = AtomicU64::new(self.first_seed);
        let whole = Mutex::new((Outcome::default(), Instant::now()));
        let work = || {
            let mut simulator = Simulator::new();
            loop {
                let seed = next_seed.fetch_add(1, Ordering::Relaxed);
                if self.seed.is_some_and(|only| seed != only) {
                    return;
                }
                let outcome = run(&mut simulator, seed, self.effort);
                let (whole, reported) = &mut *whole.lock().unwrap_or_else(PoisonError::into_inner);
                whole.add(outcome);
                if self.reports && reported.elapsed() > PROGRESS_INTERVAL {
                    *reported = Instant::now();
                    report(name, whole, started.elapsed(), seed);
                }
                if self.is_done(whole) {
                    return;
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(work)));
        });
        let (whole, _) = whole.into_inner().unwrap_or_else(PoisonError::into_inner);
        if self.reports {
            report(name, &whole, started.elapsed(), next_seed.into_inner() - 1);
        }
        add_to_table(name, &whole);
        whole
    }
}

/// The seed that a base begins with; that of none is 1.
fn first_seed(base: Option<u64>) -> u64 {
    base.unwrap_or_default().wrapping_mul(SEEDS_PER_BASE).wrapping_add(1)
}

fn report(name: &str, whole: &Outcome, elapsed: Duration, seed: u64) {
    let images = whole.images();
    eprintln!(
        "{name}: {images} images up to seed {seed}, {:.0} a second, {} broken promises",
        images as f64 / elapsed.as_secs_f64(),
        whole.failures_count
    );
}

const TABLE_HEAD: &str = "\
| | crash | images | acknowledged lost in | at most | not a prefix | corrupt | not opened |
|---|---|---|---|---|---|---|---|
";

/// Prints what was found as rows of a table in Markdown, and adds them to the
/// file that the environment names.
fn add_to_table(name: &str, outcome: &Outcome) {
    let mut rows = String::new();
    for (crash, tally) in [
        ("power cut", outcome.power_cut),
        ("and another in the recovery", outcome.recovery),
        ("process killed", outcome.killed),
    ] {
        let Tally { images, images_with_losses, lost_max, not_a_prefix, corrupt, unopened } = tally;
        let part = |count| part(count, images);
        let [losses, not_a_prefix, corrupt, unopened] =
            [images_with_losses, not_a_prefix, corrupt, unopened].map(part);
        if images > 0 {
            let _ = writeln!(
                rows,
                "| {name} | {crash} | {images} | {losses} | {lost_max} | {not_a_prefix} | \
                 {corrupt} | {unopened} |"
            );
        }
    }
    println!("{TABLE_HEAD}{rows}");
    let Some(path) = std::env::var_os("LEAFPRESS_CRASH_TABLE") else { return };
    let head = if Path::new(&path).exists() { "" } else { TABLE_HEAD };
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{head}{rows}").as_bytes()).unwrap();
}

fn part(count: u64, whole: u64) -> String {
    if count == 0 {
        return "0".to_owned();
    }
    format!("{count} ({:.2} %)", count as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(images: u64, lost_max: u64) -> Outcome {
        let power_cut = Tally { images, lost_max, ..Tally::default() };
        Outcome { power_cut, ..Outcome::default() }
    }

    #[test]
    fn a_control_goes_on_until_it_has_found_something() {
        let found: fn(&Outcome) -> bool = |outcome| outcome.power_cut.lost_max > 0;
        let control = Budget { images: 100, ..Budget::new(100, 1).until(found) };
        let done = [images(99, 1), images(100, 0), images(100, 1), images(SEARCH_IMAGES_MIN, 0)]
            .map(|outcome| control.is_done(&outcome));
        assert_eq!(done, [false, false, true, true]);
        let usual = Budget { wanted: None, ..control };
        assert!(usual.is_done(&images(100, 0)));
    }

    #[test]
    fn bases_share_no_seed() {
        assert_eq!([None, Some(0), Some(2)].map(first_seed), [1, 1, 2_000_001]);
    }
}
