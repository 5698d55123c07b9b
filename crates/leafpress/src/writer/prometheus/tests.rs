//! The exposition against a file, and against the format's grammar.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::super::readers::OldestReader;
use super::super::shared::SharingStats;
use super::super::stats::{Bucket, GroupSizes, Latency, WriterStats};
use crate::checkpoint::CheckpointStats;

fn some_stats() -> WriterStats {
    let buckets = vec![Bucket { at_most: 1, count: 2 }, Bucket { at_most: 2, count: 3 }];
    let group_size =
        GroupSizes { count: 4, sum: 80, mean: 20.0, p50: 1, p99: 76, max: 76, buckets };
    let latency = |sum_us: u64| {
        let bucket = |(us, count)| Bucket { at_most: Duration::from_micros(us), count };
        let buckets = [(25, 1), (1_000, 3), (10_000_000, 3)].map(bucket).to_vec();
        let sum = Duration::from_micros(sum_us);
        Latency { count: 4, sum, mean: sum / 4, buckets, ..Latency::default() }
    };
    let oldest = OldestReader {
        name: "nightly \"report\"".to_owned(),
        open_for: Duration::from_millis(12_500),
        in_transaction: true,
    };
    WriterStats {
        open_for: Duration::from_millis(60_500),
        commits: 4,
        calls: 80,
        calls_failed: 3,
        calls_cancelled: 2,
        queue_full: 1,
        groups_rolled_back: 1,
        calls_replayed: 7,
        busy_waits: 5,
        group_size,
        wait: latency(123),
        commit: latency(2_000_001),
        total: latency(0),
        queue_depth: 9,
        queue_depth_max: 512,
        wal_bytes: 4_152,
        wal_bytes_max: 4_194_304,
        oldest_reader: Some(oldest),
        sharing: Some(SharingStats {
            members: 3,
            own_syncs: 4,
            syncs_of_others: 11,
            lonely_syncs: 1,
            waits_in_line: 6,
            makes_checkpoints: true,
            why_not: None,
        }),
        checkpoints: Some(CheckpointStats {
            passes: 9,
            catch_ups: 3,
            writer_held_max: Duration::from_micros(1_500),
            ..CheckpointStats::default()
        }),
    }
}

#[test]
fn the_text_is_the_one_in_the_file() {
    let text =
        some_stats().to_prometheus(&[("database", "C:\\data\\a \"b\".db\nnext"), ("le", "x")]);
    assert_eq!(text, include_str!("golden.prom"));
}

#[test]
fn without_labels_there_are_no_braces() {
    let text = WriterStats::default().to_prometheus(&[]);
    assert!(text.contains("\nleafpress_writer_commits_total 0\n"), "{text}");
    assert!(text.contains("\nleafpress_writer_wait_seconds_bucket{le=\"+Inf\"} 0\n"), "{text}");
}

#[test]
fn names_of_labels_become_ones_that_are_allowed() {
    let text = WriterStats::default().to_prometheus(&[
        ("my-label", "1"),
        ("my_label", "2"),
        ("9", "3"),
        ("__name__", "4"),
        ("", "5"),
        ("reader", "6"),
    ]);
    let expected = "commits_total{my_label=\"1\",exported_9=\"3\",exported_name__=\"4\",\
                    exported_=\"5\",exported_reader=\"6\"} 0";
    assert!(text.contains(expected), "{text}");
}

type Labels = BTreeMap<String, String>;

#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

#[derive(Debug, Default)]
struct Parsed {
    /// Kinds by the metric's name.
    kinds: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

/// Reads the format as its grammar says, and refuses all else.
fn parse(text: &str) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut helped = HashSet::new();
    let body = text.strip_suffix('\n').ok_or("the last line has no end")?;
    for line in body.split('\n') {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, _) = help.split_once(' ').ok_or("HELP without a text")?;
            if !helped.insert(name.to_owned()) {
                return Err(format!("a second HELP of {name}"));
            }
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or("TYPE without a kind")?;
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return Err(format!("{kind} is no kind"));
            }
            if parsed.kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                return Err(format!("a second TYPE of {name}"));
            }
        } else {
            let sample = parse_sample(line)?;
            // Samples of a metric follow its TYPE, all in one place.
            let metric = parsed.kinds.keys().find(|it| is_of(&sample.name, it));
            if metric.is_none() || helped.is_empty() {
                return Err(format!("{line} has no TYPE before it"));
            }
            parsed.samples.push(sample);
        }
    }
    Ok(parsed)
}

fn is_of(sample: &str, metric: &str) -> bool {
    sample.strip_prefix(metric).is_some_and(|it| ["", "_bucket", "_sum", "_count"].contains(&it))
}

fn is_name(name: &str, others: &str) -> bool {
    let is_first = |it: char| it.is_ascii_alphabetic() || it == '_' || others.contains(it);
    name.starts_with(is_first) && name.chars().all(|it| is_first(it) || it.is_ascii_digit())
}

fn parse_sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("a sample without a value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, ":") {
        return Err(format!("{name} is no name of a metric"));
    }
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"").ok_or("a label without a value")?;
            let (value, behind) = parse_value(value)?;
            if !is_name(label, "") || labels.insert(label.to_owned(), value).is_some() {
                return Err(format!("{label} is no name of a label, or there twice"));
            }
            rest = behind.strip_prefix(',').unwrap_or(behind);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value = value.parse().map_err(|_| format!("{value} is no number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// A label's value up to its closing quote, and what follows that.
fn parse_value(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, it)) = chars.next() {
        match it {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, it @ ('\\' | '"'))) => it,
                other => return Err(format!("an escape of {other:?}")),
            }),
            it => value.push(it),
        }
    }
    Err("a value without an end".to_owned())
}

fn check_histogram(parsed: &Parsed, metric: &str) {
    let of = |suffix: &str| {
        let name = format!("{metric}{suffix}");
        parsed.samples.iter().filter(move |it| it.name == name).collect::<Vec<_>>()
    };
    let bound = |sample: &Sample| sample.labels["le"].parse::<f64>().unwrap();
    let buckets = of("_bucket");
    assert!(buckets.windows(2).all(|it| bound(it[0]) < bound(it[1])), "{metric}");
    assert!(buckets.windows(2).all(|it| it[0].value <= it[1].value), "{metric}");
    let last = buckets.last().unwrap();
    assert_eq!(last.labels["le"], "+Inf");
    assert!((last.value - of("_count")[0].value).abs() < 0.5, "{metric}");
    assert!(of("_sum")[0].value.is_finite());
}

proptest! {
    #[test]
    fn what_is_written_can_be_read_back(
        values in prop::collection::vec("\\PC*|[\\\\\"\n,{}= ]{0,8}", 2),
        reader in "[\\\\\"\na-c]{0,6}", millis in 0..100_000_000_u64,
        counts in prop::array::uniform4(0..1_u64 << 50),
        latencies_us in prop::collection::vec(0..1_u64 << 36, 0..50),
    ) {
        let recorder = super::super::stats::Recorder::new();
        super::super::stats::tests::record_all(&recorder, &latencies_us);
        let mut stats = recorder.snapshot();
        [stats.calls_failed, stats.queue_full, stats.busy_waits, stats.wal_bytes] = counts;
        let open_for = Duration::from_millis(millis);
        stats.oldest_reader =
            Some(OldestReader { name: reader.clone(), open_for, in_transaction: false });
        let text = stats.to_prometheus(&[("first", &values[0]), ("second", &values[1])]);
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        for sample in &parsed.samples {
            prop_assert_eq!(&sample.labels["first"], &values[0]);
            prop_assert_eq!(&sample.labels["second"], &values[1]);
        }
        let value = |name: &str| {
            let name = format!("leafpress_writer_{name}");
            parsed.samples.iter().find(|it| it.name == name).map(|it| it.value)
        };
        prop_assert_eq!(value("calls_failed_total"), Some(counts[0] as f64));
        prop_assert_eq!(value("wal_bytes"), Some(counts[3] as f64));
        prop_assert_eq!(value("wait_seconds_count"), Some(latencies_us.len() as f64));
        prop_assert_eq!(value("oldest_reader_seconds"), Some(open_for.as_secs_f64()));
        for (metric, kind) in &parsed.kinds {
            prop_assert_eq!(metric.ends_with("_total"), kind == "counter");
            if kind == "histogram" {
                check_histogram(&parsed, metric);
            }
        }
    }
}

#[test]
fn the_parser_refuses_what_is_not_the_format() {
    let head = "# HELP a b\n# TYPE a gauge\n";
    assert!(parse(&format!("{head}a 1\n")).is_ok());
    for wrong in
        ["a 1", "a{x=\"\\q\"} 1\n", "a{x=\"} 1\n", "a x\n", "9a 1\n", "a{9=\"\"} 1\n", "b 1\n"]
    {
        assert!(parse(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
}
