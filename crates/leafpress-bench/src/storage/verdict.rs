//! The profile that fits a place, and the reasons: from facts to plain words.
//!
//! Stands at the end of [`super::measure`]. A pure function of what was
//! found, so that every kind of disk can be tested without having one.
//!
//! Must never: praise what was not measured, or hide a doubt. A disk that
//! answers too fast may be excellent or may lie, and only its owner can know.

use std::time::Duration;

use leafpress::Profile;
use leafpress::storage::{AtomicBy, Findings, Nature};
use serde::Serialize;

use crate::numbers;

/// No flash that really writes is faster; those with a cache that outlives a
/// power cut can be.
const FASTEST_FLASH_SYNC: Duration = Duration::from_micros(20);
/// A platter turns 15,000 times a minute at best: half a turn is 2 ms.
const FASTEST_PLATTER_SYNC: Duration = Duration::from_micros(1_500);
/// From here on one caller alone makes fewer than 200 commits a second.
const SLOW_SYNC: Duration = Duration::from_millis(5);
/// The worst sync is this many times the usual one: a disk that stalls.
const STALL_FACTOR: u32 = 50;
const STALL: Duration = Duration::from_millis(100);
const LITTLE_SPACE_BYTES: u64 = 1 << 30;

/// The profile that fits, and the warnings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The profile that fits.
    pub profile: Profile,
    /// The promise of that profile here.
    pub promise: String,
    /// Reasons for which it fits, one sentence each.
    pub why: Vec<String>,
    /// Reasons for which its promise may be broken here, one sentence each.
    pub warnings: Vec<String>,
    /// True if one of the warnings says that what was synced may be lost all the same.
    pub promise_in_doubt: bool,
    /// Commits a second that one caller alone can make under `durable`, from the sync after an
    /// append.
    pub durable_commits_alone_per_second: f64,
}

pub(crate) fn judge(found: &Findings) -> Verdict {
    let sync = found.measured.sync_after_append.p50.max(Duration::from_nanos(10));
    let per_second = 1e9 / sync.as_nanos() as f64;
    let profile = match found.file_system.nature {
        Nature::Network | Nature::SharedByHost => Profile::Rollback,
        Nature::Memory => Profile::Relaxed,
        Nature::Local | Nature::Overlay | Nature::Unknown => Profile::Durable,
    };
    let mut why = vec![why_here(found.file_system.nature, &found.file_system.kind)];
    if profile == Profile::Durable {
        why.push(why_so_fast(sync, per_second));
    }
    why.push(about_atomic_writes(found));
    let doubts =
        [found.file_system.warnings(), about_disarmed_syncs(found), about_sync_speed(found)];
    let mut warnings = doubts.concat();
    // A container's layer keeps what it syncs for as long as it is there.
    let of_layer = usize::from(found.file_system.nature == Nature::Overlay);
    let promise_in_doubt = warnings.len() > of_layer;
    warnings.extend([about_stalls(found), about_space(found)].concat());
    let promise = profile.promise_where(&found.not_durable());
    Verdict {
        profile,
        promise,
        why,
        warnings,
        promise_in_doubt,
        durable_commits_alone_per_second: per_second,
    }
}

fn why_here(nature: Nature, kind: &str) -> String {
    match nature {
        Nature::Local => format!("{kind} on a disk of this machine: a write-ahead log works here"),
        Nature::Overlay => {
            format!("{kind} lies over a disk of this machine: a write-ahead log works here")
        }
        Nature::Unknown => format!(
            "nothing is known against a write-ahead log on {kind}; its syncs were taken at their \
             word"
        ),
        Nature::Memory => format!(
            "{kind} is memory: after a power cut nothing is left, whatever the profile; relaxed \
             still survives a killed process, and waits for no sync"
        ),
        Nature::Network => format!(
            "{kind} is on a network: a write-ahead log needs memory that all programs share, and \
             machines share none, so it is refused here"
        ),
        Nature::SharedByHost => format!(
            "{kind} is a folder of this virtual machine's host: a write-ahead log needs memory \
             that all programs share, host and guest share none, so it is refused here"
        ),
    }
}

fn why_so_fast(sync: Duration, per_second: f64) -> String {
    let pace = format!(
        "one caller alone waits {} for a commit, which makes about {per_second:.0} a second",
        in_words(sync)
    );
    if sync >= SLOW_SYNC {
        format!(
            "{pace}; many callers share one sync, so let them write at the same time, or choose \
             relaxed if the last moments may be lost in a power cut"
        )
    } else {
        format!("{pace}; many callers share one sync and make many times that")
    }
}

fn in_words(time: Duration) -> String {
    numbers::time(time.as_secs_f64())
}

/// A sentence on the way in which `rollback` commits a page here, in the words of its opening.
fn about_atomic_writes(found: &Findings) -> String {
    let atomic = &found.atomic_writes;
    let max = atomic.unit_max_bytes.unwrap_or(0);
    let sizes = format!("{} to {max} bytes", atomic.unit_min_bytes.unwrap_or(0));
    let in_place = "rollback commits a single page in place here, without a journal";
    let journal = "rollback writes a journal for each transaction here";
    match atomic.by {
        AtomicBy::Hardware => format!(
            "{in_place} (hardware atomic): the disk writes pages of {sizes} whole or not at all"
        ),
        AtomicBy::Software => format!(
            "{in_place} (software atomic): the file system writes pages of {sizes} whole or not \
             at all"
        ),
        AtomicBy::Unknown if max > 0 => format!(
            "{in_place} (software atomic, since nothing proves that the disk does it): pages of \
             {sizes} are written whole or not at all"
        ),
        AtomicBy::None => {
            format!("{journal}: neither the disk nor the file system writes a page whole")
        }
        AtomicBy::Unknown => {
            format!("{journal}: the system does not say whether a page is written whole")
        }
    }
}

fn about_disarmed_syncs(found: &Findings) -> Vec<String> {
    let says = "libeatmydata is loaded into this process: it makes every sync do nothing";
    if found.syncs_are_disarmed { vec![says.to_owned()] } else { Vec::new() }
}

/// A sync that is too fast to be one.
fn about_sync_speed(found: &Findings) -> Vec<String> {
    if matches!(found.file_system.nature, Nature::Memory) || found.syncs_are_disarmed {
        return Vec::new();
    }
    let after_append = found.measured.sync_after_append.p50;
    let after_overwrite = found.measured.sync_after_overwrite.p50;
    let fastest = after_append.min(after_overwrite);
    let device = found.device.as_ref();
    let is_virtual = device.is_none_or(|it| it.is_virtual);
    let is_platter = device.is_some_and(|it| it.rotational == Some(true) && !it.is_virtual);
    let took = format!(
        "{} after an overwrite and {} after an append",
        in_words(after_overwrite),
        in_words(after_append)
    );
    if is_platter && fastest < FASTEST_PLATTER_SYNC {
        return vec![format!(
            "a sync took {took}; no platter turns so fast: it is answered from a cache; \
             durable holds only if that cache has a battery, else switch the disk's write cache \
             off"
        )];
    }
    if fastest >= FASTEST_FLASH_SYNC {
        return Vec::new();
    }
    let who =
        if is_virtual { "this virtual machine's host, or a layer below," } else { "the disk" };
    vec![format!(
        "a sync took {took}, faster than flash can write: either {who} keeps writes \
         in a cache that outlives a power cut, or the sync is not carried out; in the second case \
         durable is no better than relaxed, and only the owner of the hardware can tell"
    )]
}

fn about_stalls(found: &Findings) -> Vec<String> {
    let sync = &found.measured.sync_after_append;
    if sync.max < STALL || sync.max < sync.p50 * STALL_FACTOR {
        return Vec::new();
    }
    vec![format!(
        "one sync took {}, the usual one {}: the disk stalls now and then, or others were \
         writing to it",
        in_words(sync.max),
        in_words(sync.p50)
    )]
}

fn about_space(found: &Findings) -> Vec<String> {
    match found.free_bytes {
        Some(free) if free < LITTLE_SPACE_BYTES => vec![format!(
            "only {} MB are free: a full disk makes every commit fail",
            free / 1_000_000
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use leafpress::storage::{Device, StorageOptions, measure};

    use super::*;

    fn us(time: u64) -> Duration {
        Duration::from_micros(time)
    }

    /// Findings on an ordinary disk: names are those of any, figures and facts are made up.
    fn findings() -> Findings {
        static MEASURED: LazyLock<Findings> = LazyLock::new(|| {
            let folder = tempfile::tempdir().unwrap();
            let options = StorageOptions::default().time(Duration::from_millis(1));
            measure(folder.path(), &options).unwrap()
        });
        let mut found = MEASURED.clone();
        "ext4".clone_into(&mut found.file_system.kind);
        found.file_system.nature = Nature::Local;
        found.file_system.options = vec!["rw".to_owned(), "relatime".to_owned()];
        let mut device = Device::default();
        "nvme0n1".clone_into(&mut device.name);
        device.rotational = Some(false);
        found.device = Some(device);
        found.free_bytes = Some(1 << 40);
        found.syncs_are_disarmed = false;
        let atomic = &mut found.atomic_writes;
        (atomic.by, atomic.unit_min_bytes, atomic.unit_max_bytes) =
            (AtomicBy::None, Some(0), Some(0));
        let measured = &mut found.measured;
        for latency in [&mut measured.sync_after_overwrite, &mut measured.sync_after_append] {
            (latency.p50, latency.p99, latency.max) = (us(100), us(150), us(300));
        }
        found
    }

    fn warnings(change: impl FnOnce(&mut Findings)) -> String {
        let mut found = findings();
        change(&mut found);
        judge(&found).warnings.join("\n")
    }

    #[test]
    fn an_ordinary_disk_is_durable_without_a_doubt() {
        let verdict = judge(&findings());
        assert_eq!(verdict.profile, Profile::Durable);
        assert!(verdict.warnings.is_empty(), "{:?}", verdict.warnings);
        assert!(!verdict.promise_in_doubt);
        assert!((verdict.durable_commits_alone_per_second - 10_000.0).abs() < 1e-6);
        assert!(verdict.why[1].contains("100 µs") && verdict.why[1].contains("10000 a second"));
    }

    #[test]
    fn every_kind_of_place_has_its_profile_and_its_reason() {
        for (nature, profile, reason, warning) in [
            (Nature::Local, Profile::Durable, "a write-ahead log works here", ""),
            (Nature::Overlay, Profile::Durable, "lies over a disk", "put the database on a volume"),
            (Nature::Unknown, Profile::Durable, "nothing is known against", ""),
            (Nature::Memory, Profile::Relaxed, "nothing is left", "must survive a restart"),
            (Nature::Network, Profile::Rollback, "on a network", "rests on the locks and syncs"),
            (Nature::SharedByHost, Profile::Rollback, "host", "rests on the locks and syncs"),
        ] {
            let mut found = findings();
            found.file_system.nature = nature;
            let verdict = judge(&found);
            assert_eq!(verdict.profile, profile);
            assert!(verdict.why[0].contains(reason), "{:?}", verdict.why);
            let all = verdict.warnings.join("\n");
            assert!(all.contains(warning) && all.is_empty() == warning.is_empty(), "{all}");
            assert_eq!(nature.refuses_wal(), !profile.is_wal(), "as opening does");
        }
    }

    #[test]
    fn a_sync_that_is_too_fast_is_doubted() {
        let fast = |ns| {
            move |found: &mut Findings| {
                found.measured.sync_after_overwrite.p50 = Duration::from_nanos(ns);
            }
        };
        assert!(warnings(fast(3_000)).contains("the disk keeps writes in a cache"));
        assert_eq!(warnings(fast(21_000)), "");
        let on_platter = |time| {
            move |found: &mut Findings| {
                found.device.as_mut().unwrap().rotational = Some(true);
                found.measured.sync_after_append.p50 = us(time);
                found.measured.sync_after_overwrite.p50 = us(time);
            }
        };
        assert!(warnings(on_platter(200)).contains("no platter turns so fast"));
        assert_eq!(warnings(on_platter(8_000)), "");
        assert!(
            warnings(|found| {
                // A virtual disk calls itself a platter, and is none.
                found.device.as_mut().unwrap().is_virtual = true;
                on_platter(10)(found);
            })
            .contains("virtual machine's host")
        );
        assert!(
            !warnings(|found| {
                found.file_system.nature = Nature::Memory;
                fast(100)(found);
            })
            .contains("a sync took")
        );
    }

    #[test]
    fn both_syncs_are_named_where_one_of_them_is_doubted() {
        let mut found = findings();
        found.measured.sync_after_append.p50 = us(35);
        found.measured.sync_after_overwrite.p50 = us(17);
        let verdict = judge(&found);
        let says = "a sync took 17 µs after an overwrite and 35 µs after an append";
        assert!(verdict.warnings[0].contains(says), "{:?}", verdict.warnings);
        assert!(verdict.promise_in_doubt);
    }

    #[test]
    fn a_disk_that_stalls_and_a_layer_that_goes_are_no_doubt_about_syncs() {
        let mut found = findings();
        found.measured.sync_after_append.max = us(400_000);
        found.free_bytes = Some(1);
        found.file_system.nature = Nature::Overlay;
        let verdict = judge(&found);
        assert_eq!(verdict.warnings.len(), 3, "{:?}", verdict.warnings);
        assert!(!verdict.promise_in_doubt);
        found.syncs_are_disarmed = true;
        assert!(judge(&found).promise_in_doubt);
    }

    #[test]
    fn no_promise_about_power_cuts_is_made_where_syncs_save_nothing() {
        type Change = fn(&mut Findings);
        let usual = judge(&findings());
        assert_eq!(usual.promise, Profile::Durable.promise());
        let changes: [(&str, Change); 5] = [
            ("tmpfs is memory", |it| {
                it.file_system.kind = "tmpfs".into();
                it.file_system.nature = Nature::Memory;
            }),
            ("mounted with nobarrier", |it| it.file_system.options.push("nobarrier".into())),
            ("mounted with barrier=0", |it| it.file_system.options.push("barrier=0".into())),
            ("mounted with volatile", |it| it.file_system.options.push("volatile".into())),
            ("libeatmydata is loaded", |it| it.syncs_are_disarmed = true),
        ];
        for (why, change) in changes {
            let mut found = findings();
            change(&mut found);
            let promise = judge(&found).promise;
            assert!(
                promise.contains("none about power cuts here") && promise.contains(why),
                "{promise}"
            );
            for claim in ["survives a power cut", "never damaged", "last moments"] {
                assert!(!promise.contains(claim), "{promise}");
            }
        }
    }

    #[test]
    fn a_slow_disk_is_told_what_helps() {
        let mut found = findings();
        found.measured.sync_after_append.p50 = us(20_000);
        let verdict = judge(&found);
        assert_eq!(verdict.profile, Profile::Durable);
        assert!(verdict.why[1].contains("20 ms") && verdict.why[1].contains("choose relaxed"));
        assert!(verdict.why[1].contains("about 50 a second"), "{}", verdict.why[1]);
    }

    #[test]
    fn stalls_and_little_space_are_named() {
        let all = warnings(|it| it.measured.sync_after_append.max = us(400_000));
        assert!(all.contains("one sync took 0.40 s, the usual one 100 µs"), "{all}");
        let all = warnings(|it| it.free_bytes = Some(300_000_000));
        assert!(all.contains("only 300 MB are free"), "{all}");
    }

    #[test]
    fn what_rollback_gets_is_said_everywhere() {
        for (by, max, expected) in [
            (
                AtomicBy::Hardware,
                16384,
                "(hardware atomic): the disk writes pages of 4096 to 16384",
            ),
            (AtomicBy::Software, 16384, "(software atomic): the file system writes pages of 4096"),
            (
                AtomicBy::Unknown,
                4096,
                "(software atomic, since nothing proves that the disk does it)",
            ),
            (AtomicBy::None, 0, "a journal for each transaction here: neither the disk nor"),
            (AtomicBy::Unknown, 0, "a journal for each transaction here: the system does not say"),
        ] {
            let mut found = findings();
            found.atomic_writes.by = by;
            found.atomic_writes.unit_min_bytes = Some(4096);
            found.atomic_writes.unit_max_bytes = Some(max);
            let why = judge(&found).why.join("\n");
            assert!(why.contains(expected), "{why}");
        }
    }
}
