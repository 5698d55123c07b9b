use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::readers::OldestReader;
use super::*;

const HOUR_US: u64 = 3_600_000_000;
fn us(time: u64) -> Duration {
    Duration::from_micros(time)
}

/// One group for each latency, all of its three times that long.
pub(in crate::writer) fn record_all(recorder: &Recorder, latencies_us: &[u64]) {
    for &latency_us in latencies_us {
        let duration = Duration::from_micros(latency_us);
        let submitted = Instant::now();
        let begun = submitted + duration;
        let group = GroupDone {
            failed: 0,
            begun,
            commit: duration,
            answered: begun,
            wal_bytes: 4_152,
            detours: Detours::default(),
        };
        recorder.group_committed(&group, [submitted].into_iter());
    }
}

#[test]
fn a_group_counts_each_of_its_calls_once() {
    let recorder = Recorder::new();
    let submitted = Instant::now();
    let begun = submitted + Duration::from_micros(100);
    let answered = begun + Duration::from_micros(150);
    let group = GroupDone {
        failed: 2,
        begun,
        commit: Duration::from_micros(120),
        answered,
        wal_bytes: 8_192,
        detours: Detours { cancelled: 1, rolled_back: 1, calls_replayed: 5, busy_waits: 1 },
    };
    let plain = Detours::default();
    // One was submitted after BEGIN: it did not wait at all.
    let late = begun + Duration::from_micros(10);
    recorder.group_committed(&group, [submitted, submitted, late].into_iter());
    recorder.queue_full();
    recorder.group_committed(
        &GroupDone { wal_bytes: 4_096, detours: plain, ..group },
        [late].into_iter(),
    );

    let stats = recorder.snapshot();
    assert_eq!((stats.commits, stats.calls, stats.calls_failed), (2, 4, 4));
    assert_eq!((stats.groups_rolled_back, stats.calls_replayed), (1, 5));
    assert_eq!((stats.busy_waits, stats.calls_cancelled, stats.queue_full), (1, 1, 1));
    assert_eq!((stats.wal_bytes, stats.wal_bytes_max), (4_096, 8_192));
    assert_eq!((stats.group_size.sum, stats.group_size.max), (4, 3));
    assert_eq!((stats.wait.count, stats.wait.sum, stats.wait.max), (4, us(200), us(100)));
    assert_eq!((stats.commit.count, stats.commit.p50, stats.commit.max), (2, us(120), us(120)));
    assert_eq!((stats.total.sum, stats.total.max), (us(250 + 250 + 140 + 140), us(250)));
    assert_eq!(stats.total.mean, us(195));
}

#[test]
fn long_times_are_counted_and_their_maximum_is_exact() {
    let recorder = Recorder::new();
    let hours_us = 3 * HOUR_US + 1;
    record_all(&recorder, &[0, hours_us]);
    let commit = recorder.snapshot().commit;
    assert_eq!((commit.count, commit.max, commit.p50), (2, us(hours_us), us(0)));
    assert_eq!(commit.buckets.last().map(|it| it.count), Some(1));
}

#[test]
fn nothing_recorded_is_all_zeros() {
    let stats = Recorder::new().snapshot();
    let nothing = WriterStats {
        open_for: stats.open_for,
        group_size: GroupSizes { buckets: stats.group_size.buckets.clone(), ..<_>::default() },
        wait: Latency { buckets: stats.wait.buckets.clone(), ..<_>::default() },
        commit: Latency { buckets: stats.commit.buckets.clone(), ..<_>::default() },
        total: Latency { buckets: stats.total.buckets.clone(), ..<_>::default() },
        ..WriterStats::default()
    };
    assert_eq!(stats, nothing);
    assert!(stats.wait.buckets.iter().all(|it| it.count == 0));
}

#[test]
fn a_snapshot_has_the_groups_of_all_threads() {
    let recorder = Recorder::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| record_all(&recorder, &[5; 1_000]));
        }
        for _ in 0..20 {
            let stats = recorder.snapshot();
            // Of one moment: what belongs together is together.
            assert_eq!(stats.commits, stats.wait.count);
            assert_eq!(us(stats.calls * 5), stats.total.sum);
        }
    });
    assert_eq!(recorder.snapshot().commits, 4_000);
}

#[test]
fn people_get_a_table() {
    let recorder = Recorder::new();
    record_all(&recorder, &[80, 1_240, 25_100, 2_500_000]);
    let mut stats = recorder.snapshot();
    stats.open_for = Duration::from_millis(12_340);
    stats.oldest_reader = Some(OldestReader {
        name: "report".to_owned(),
        open_for: Duration::from_millis(1_500),
        in_transaction: true,
    });
    let expected = "\
commits        4 in 12.3 s
calls          4: 0 failed, 0 cancelled, 0 sent away as the queue was full
calls a commit 1.0 in the mean, half at most 1, 99 % at most 1, at most 1
rolled back    0 groups, 0 calls ran again; 0 waits for other writers
queue          0 calls, at most 0
WAL            4152 bytes, at most 4152
oldest reader  report for 1.5 s, in a read transaction
                      p50       p99     p99.9       max      mean
wait              1.25 ms    2.50 s    2.50 s    2.50 s    632 ms
commit            1.25 ms    2.50 s    2.50 s    2.50 s    632 ms
total             1.25 ms    2.50 s    2.50 s    2.50 s    632 ms";
    assert_eq!(stats.to_string(), expected);
}

#[test]
fn as_json_times_are_in_the_units_of_their_names() {
    let recorder = Recorder::new();
    record_all(&recorder, &[80]);
    let mut stats = recorder.snapshot();
    stats.oldest_reader = Some(OldestReader {
        name: "report".to_owned(),
        open_for: Duration::from_millis(1_500),
        in_transaction: false,
    });
    let json = serde_json::to_value(&stats).unwrap();
    let mut commit = json["commit"].clone();
    let buckets = commit["buckets"].take();
    assert_eq!(buckets[3], serde_json::json!({"at_most": 100, "count": 1}));
    let expected = serde_json::json!({
        "count": 1, "sum_us": 80, "mean_us": 80.0, "p50_us": 80, "p99_us": 80, "p999_us": 80,
        "max_us": 80, "buckets": null,
    });
    assert_eq!(commit, expected);
    assert_eq!(json["oldest_reader"]["open_for_s"], 1.5);
}

proptest! {
    /// Against the sorted values themselves.
    #[test]
    fn quantiles_and_buckets_are_exact_to_one_percent(
        mut latencies_us in prop::collection::vec(
            prop_oneof![0..300_u64, 0..100_000_u64, 0..HOUR_US], 1..200),
    ) {
        let recorder = Recorder::new();
        record_all(&recorder, &latencies_us);
        let stats = recorder.snapshot();
        latencies_us.sort_unstable();
        let count = latencies_us.len();
        let quantile = |of_1000: usize| latencies_us[(count * of_1000).div_ceil(1_000).max(1) - 1];
        let is_near = |shown: u64, exact: u64| shown.abs_diff(exact) as f64 <= exact as f64 * 0.01;
        for latency in [&stats.wait, &stats.commit, &stats.total] {
            prop_assert_eq!(latency.count, count as u64);
            prop_assert_eq!(latency.sum, us(latencies_us.iter().sum::<u64>()));
            prop_assert_eq!(latency.max, us(latencies_us[count - 1]));
            for (shown, of_1000) in [(latency.p50, 500), (latency.p99, 990), (latency.p999, 999)] {
                let (shown, exact) = (in_microseconds(shown), quantile(of_1000));
                prop_assert!(is_near(shown, exact), "{} of 1000: {} for {}", of_1000, shown, exact);
            }
            for bucket in &latency.buckets {
                let at_most = |bound: f64| latencies_us.iter().filter(|&&it| it as f64 <= bound).count() as u64;
                let bound = in_microseconds(bucket.at_most) as f64;
                prop_assert!((at_most(bound)..=at_most(bound * 1.01)).contains(&bucket.count));
            }
        }
    }
}
