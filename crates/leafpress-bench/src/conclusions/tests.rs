//! The advice from made-up reports: what it says, and what it must not.

use serde_json::json;

use super::of;
use crate::report::{Advice, ExperimentReport, Latency, Noise, Ratio, Rung, Safety, Simulated};
use crate::test_reports::{ours, overview, report, rung, with_ratios};

fn said(report: &ExperimentReport) -> String {
    let line = |it: &Advice| format!("{}\n{}\n", it.headline, it.text);
    of(report).iter().map(line).collect()
}

fn ladder(ours_s: f64, best_s: f64) -> ExperimentReport {
    let mut default = rung("ladder", "rows", "default", Safety::Relaxed, 14.0);
    default.sample_rows = Some(500);
    report(vec![
        default,
        rung("ladder", "rows", "WAL + FULL", Safety::Durable, best_s),
        rung("ladder", "rows", "WAL + NORMAL", Safety::Relaxed, best_s / 4.0),
        rung("ladder", "rows", "MEMORY + OFF", Safety::Rebuildable, best_s / 9.0),
        ours("ladder", "rows", "pressed", Safety::Durable, ours_s),
    ])
}

#[test]
fn a_whole_run_says_what_to_do_first() {
    let tour = overview();
    let all = of(&tour);
    assert_eq!(
        all[0].headline,
        "On this disk: use the profile durable; it is 28 times faster than SQLite's default, one \
         thread each, and loses nothing"
    );
    let experiments: Vec<&str> = all.iter().map(|it| it.experiment.as_str()).collect();
    let expected =
        ["queue-inserts", "ladder", "presort", "writer", "queue-inserts", "checkpoint", "queue"];
    assert_eq!(experiments, expected);
    let times = all[0].times.expect("a multiple");
    assert!((times.value - 14.73 / 0.53).abs() < 0.01, "{times:?}");
    assert!(times.low < Some(times.value) && Some(times.value) < times.high, "{times:?}");
    for expected in [
        "One thread puts in 10,000 rows, each in its own transaction, in 0.53 s with \"Writer, 1 \
         caller\" (one thread that waits for each answer), and in 14.7 s with SQLite's default (28 \
         times faster; another run: ",
        "By \"Writer, 64 callers\" (64 threads, each of which waits for its own answer) they take \
         57 ms.",
        "A profile is a set of SQLite's settings and the promise that they keep; durable is WAL \
         with FULL: what was acknowledged survives a power cut.",
    ] {
        assert!(all[0].text.contains(expected), "{expected}\n{}", all[0].text);
    }
    for advice in &all {
        assert!(advice.text.ends_with('.') && !advice.text.contains("  "), "{}", advice.text);
        assert_eq!(advice.times.is_some(), advice.beside.is_some());
    }
}

#[test]
fn ours_stands_beside_the_default_and_the_best_that_is_as_safe() {
    let text = said(&ladder(0.009, 0.12));
    for expected in [
        "Many rows at once: load them with `leafpress load`",
        "On this disk, 100,000 rows take 9.0 ms by ours, \"pressed\", whole pages written in the \
         order of the keys, past SQL, and 0.12 s by the best other way that is as safe, \"WAL + \
         FULL\" (13 times faster; another run: 11 to 16).",
        "A power cut takes nothing of them.",
        "With SQLite's default, \"default\", they take about 14.0 s, and this may lose the last \
         moments before a power cut.",
        "Without a library: \"WAL + FULL\"",
        "\"WAL + NORMAL\" takes 30 ms, but may lose the last moments before a power cut.",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn presort_stands_beside_rows_as_they_come_and_no_default() {
    let text = said(&overview());
    assert!(text.contains("take 0.13 s by ours, \"pressed\""), "{text}");
    let begin = "With plain SQLite, \"as they come\", they take 5.80 s.";
    assert!(text.contains(begin), "{text}");
}

#[test]
fn what_can_corrupt_is_never_advised() {
    for report in [ladder(0.009, 0.12), overview()] {
        let text = said(&report);
        assert!(!text.contains("MEMORY") && !text.contains("OFF"), "{text}");
        let corrupting = report.rungs.iter().filter(|rung| rung.safety.can_corrupt());
        for rung in corrupting {
            assert!(!text.contains(&format!("\"{}\"", rung.label)), "{}: {text}", rung.label);
        }
    }
    // Not even where it is ours and nothing else is there.
    let only = report(vec![
        rung("ladder", "rows", "off", Safety::Rebuildable, 1.0),
        ours("ladder", "rows", "off too", Safety::Rebuildable, 0.1),
    ]);
    assert_eq!(of(&only), []);
}

#[test]
fn a_rival_that_is_as_fast_or_faster_is_said_so() {
    let text = said(&ladder(0.115, 0.12));
    assert!(text.contains("plain SQLite with \"WAL + FULL\" is as fast here"), "{text}");
    assert!(text.contains("less than 1.2 times is noise here"), "{text}");
    let text = said(&ladder(0.24, 0.12));
    assert!(text.contains("\"WAL + FULL\" is 2.0 times faster here"), "{text}");
    assert!(text.contains("(2.0 times slower; another run: "), "{text}");
    // The figure in the headline is the one that lost.
    let slower = of(&ladder(0.24, 0.12))[0].times.expect("a multiple");
    assert!((slower.value - 0.5).abs() < 1e-9, "{slower:?}");
}

#[test]
fn the_disk_alone_is_no_way_to_store_rows() {
    let mut report = ladder(0.24, 0.12);
    let fast = report.rungs.iter_mut().find(|rung| rung.label == "WAL + FULL").expect("the rival");
    fast.is_bound = true;
    assert!(!said(&report).contains("WAL + FULL"), "{}", said(&report));
}

#[test]
fn what_another_run_may_turn_round_is_no_difference() {
    let mut report = ladder(0.07, 0.12);
    let shaky = Ratio { low: Some(0.9), high: Some(3.0), ..Ratio::exactly(1.7) };
    report.ratios.insert("ladder_vs_equal".to_owned(), shaky);
    let text = said(&report);
    assert!(text.contains("no sure difference from plain SQLite with \"WAL + FULL\""), "{text}");
    assert!(text.contains("(1.7 times faster; another run: 0.90 to 3.0)"), "{text}");
    assert!(text.contains("Another run may turn that round."), "{text}");
}

#[test]
fn noise_decides_what_a_difference_is() {
    let mut report = ladder(0.08, 0.12);
    assert!(said(&report).contains("(1.5 times faster"), "{}", said(&report));
    report.noise = Some(Noise { times: 1.6, ..Noise::default() });
    assert!(said(&report).contains("is as fast here"), "{}", said(&report));
    report.noise = None;
    assert!(said(&report).contains("(1.5 times faster"), "{}", said(&report));
}

#[test]
fn only_what_was_measured_is_said() {
    assert_eq!(of(&ExperimentReport::default()), []);
    // Half of a run that was stopped: no rung of ours is there yet.
    let half = report(vec![
        rung("ladder", "rows", "default", Safety::Relaxed, 14.0),
        rung("ladder", "rows", "WAL + FULL", Safety::Durable, 0.1),
    ]);
    assert_eq!(of(&half), []);
    // A ratio whose rungs are not there, and figures that are none.
    let odd = with_ratios(vec![], &[("blocking64", 3.0), ("p999_commit", f64::NAN)]);
    let text = said(&odd);
    assert!(!text.contains("Checkpoints") && !text.contains("NaN"), "{text}");
}

#[test]
fn the_profile_is_that_of_the_storage_and_the_speed_its_own() {
    let rungs = || {
        vec![
            rung("queue-inserts", "rows", "default", Safety::Relaxed, 10.0),
            rung("queue-inserts", "rows", "WAL", Safety::Durable, 2.0),
            ours("queue-inserts", "rows", "relaxed Writer", Safety::Relaxed, 0.1),
            ours("queue-inserts", "rows", "Writer", Safety::Durable, 0.5),
        ]
    };
    let on = |profile: &str| {
        let storage = json!({"verdict": {"profile": profile, "why": ["it is so"]}});
        of(&ExperimentReport { storage: Some(storage), ..report(rungs()) }).remove(0)
    };
    let durable = on("durable");
    let faster = "it is 5.0 times faster than SQLite's default, one thread each, and loses nothing";
    assert!(durable.headline.ends_with(faster), "{}", durable.headline);
    assert!(durable.text.contains("By \"Writer\" they take 0.50 s."), "{}", durable.text);
    assert!(durable.text.ends_with("Why this profile: it is so."), "{}", durable.text);
    let relaxed = on("relaxed");
    // Nothing of one thread was measured under it but the default itself.
    assert_eq!(
        relaxed.headline,
        "On this disk: use the profile relaxed; it may lose the last moments before a power cut"
    );
    let rollback = on("rollback");
    assert_eq!(rollback.headline, "On this disk: use the profile rollback; it loses nothing");
    assert_eq!(rollback.times, None);
    assert!(rollback.text.ends_with("Why this profile: it is so."), "{}", rollback.text);
    // What is no profile is none.
    assert!(on("fast").headline.contains("use the profile durable"));
}

#[test]
fn a_profile_that_is_not_faster_is_not_called_so() {
    let report = report(vec![
        rung("cycles", "rows", "default", Safety::Relaxed, 1.0),
        rung("cycles", "rows", "WAL", Safety::Durable, 0.5),
        ours("cycles", "rows", "Writer, a call a statement", Safety::Durable, 0.95),
    ]);
    let all = of(&report);
    assert_eq!(all[0].headline, "On this disk: use the profile durable; it loses nothing");
    assert_eq!(all[0].times, None);
    assert!(said(&report).contains("plain SQLite with \"WAL\" is 1.9 times faster here"));
}

#[test]
fn a_simulated_disk_is_named() {
    let simulated = Simulated { name: "sdcard".to_owned(), ..Simulated::default() };
    let report = ExperimentReport { simulated: Some(simulated), ..overview() };
    let text = said(&report);
    assert!(text.contains("On the simulated sdcard") && !text.contains("this disk"), "{text}");
}

#[test]
fn batches_that_slow_down_are_said() {
    let text = said(&overview());
    let expected = "As they come, the first batch takes 0.21 s and the last 0.95 s, as the table has \
                    grown; ours take 12 ms and 14 ms.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_loses_is_said_with_its_figures() {
    let mut tour = overview();
    let shown = said(&tour);
    assert!(shown.contains("on the disk: 468,000 a second, and"), "{shown}");
    let alone = "One thread alone gains nothing from it: 31,200 a second with a `Writer`, 34,300 a \
                 second without (1.1 times slower; another run: ";
    assert!(shown.contains(alone), "{shown}");
    assert!(shown.contains("The slowest commit took about the same: 5.8 ms"), "{shown}");
    let find = |tour: &ExperimentReport, name: &str| {
        tour.rungs.iter().position(|rung| rung.name == name).expect(name)
    };
    let like = |tour: &ExperimentReport, name: &str, like: &str, per_second: f64| Rung {
        name: name.to_owned(),
        per_second,
        ..tour.rungs[find(tour, like)].clone()
    };
    let (by_hand, queue) = ("durable, SQL, mutex, 64 × cycle", "durable, leafpress, 64 × cycle");
    let more = [
        like(&tour, "durable, leafpress, 1 × cycle", queue, 8_000.0),
        like(&tour, "durable, SQL, mutex, 1 × cycle", by_hand, 10_000.0),
        like(&tour, "durable, leafpress, 64 × cycle of 100", queue, 170_000.0),
        like(&tour, "durable, SQL, mutex, 64 × cycle of 100", by_hand, 290_000.0),
        like(&tour, "slow syncs, leafpress, 1 blocking", "commits, leafpress, 1 blocking", 1.0),
        like(&tour, "slow syncs, SQL, autocheckpoint", "commits, SQL, autocheckpoint", 1.0),
    ];
    tour.rungs.extend(more);
    let mut set = |name: &str, change: &dyn Fn(&mut Rung)| {
        let at = find(&tour, name);
        change(&mut tour.rungs[at]);
    };
    set("durable, leafpress, 1 blocking", &|rung| rung.per_second = 17_150.0);
    set("durable, leafpress, 64 blocking", &|rung| rung.per_second = 13_720.0);
    let latency = |rung: &mut Rung, p999: f64, max: f64| {
        let old = rung.latency_us.expect("latencies");
        rung.latency_us = Some(Latency { p999, max, ..old });
    };
    set("commits, leafpress, 1 blocking", &|rung| latency(rung, 255.0, 3_300.0));
    set("commits, SQL, autocheckpoint", &|rung| latency(rung, 889.0, 1_800.0));
    set("slow syncs, leafpress, 1 blocking", &|rung| latency(rung, 400.0, 9e4));
    set("slow syncs, SQL, autocheckpoint", &|rung| latency(rung, 100.0, 9e4));
    for (name, value) in
        [("alone", 0.5), ("blocking64", 0.4), ("worst_commit", 0.68), ("p999_commit_slow", 0.25)]
    {
        tour.ratios.insert(name.to_owned(), Ratio::exactly(value));
    }
    let shown = said(&tour);
    for expected in [
        "Many small transactions: plain SQLite is faster here",
        "one thread with plain SQLite, with the same settings, 34,300 a second (2.5 times slower",
        "One thread alone loses by it: 17,200 a second with a `Writer`, 34,300 a second without \
         (2.0 times slower",
        "One thread alone, the table by hand is faster: 8,000 a second with a `Queue`, 10,000 a \
         second by hand (1.2 times slower",
        "In batches of 100 jobs, the table by hand is faster: 170,000 a second with a `Queue`, \
         290,000 a second by hand (1.7 times slower",
        "255 µs with a `Writer`, and 889 µs with SQLite's own checkpoints (3.5 times shorter",
        "But the slowest commit of all was the `Writer`'s: 3.3 ms with a `Writer`, 1.8 ms without \
         (1.8 times longer; another run: ",
        "Where each sync takes 20 ms longer, SQLite's own are better: 400 µs with a `Writer`, 100 \
         µs without (4.0 times longer",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

#[test]
fn single_commits_say_where_a_log_is_faster_and_why_there_is_no_gain() {
    let mut tour = overview();
    tour.rungs.retain(|rung| rung.experiment == "atomic");
    tour.storage = None;
    tour.ratios.retain(|name, _| name.starts_with("atomic"));
    let shown = said(&tour);
    let expected = "and 3,820 a second with a rollback journal that is as safe (2.0 times faster; ";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("7,780 a second beside 11,300 a second (1.5 times slower; "), "{shown}");
    tour.ratios.clear();
    let shown = said(&tour);
    assert!(shown.contains("writes a journal as SQLite does: this disk does not write"), "{shown}");
}

#[test]
fn a_csv_file_is_compared_with_what_is_less_safe() {
    let name = |rung: Rung, name: &str| Rung { name: name.to_owned(), ..rung };
    let rungs = |ours_s| {
        let sql = rung("load", "csv", "SQL", Safety::Rebuildable, 5.0);
        let ours = ours("load", "csv", "leafpress", Safety::Durable, ours_s);
        vec![
            name(sql, "csv, SQL, types known, one row a statement"),
            name(ours, "csv, leafpress, types detected"),
        ]
    };
    let shown = said(&with_ratios(rungs(1.0), &[("csv_vs_sql", 5.0)]));
    let expected = "take 1.00 s, synced, and 5.00 s by tuned SQL that syncs nothing and is told the \
                    types (5.0 times faster";
    assert!(shown.contains(expected), "{shown}");
    let shown = said(&with_ratios(rungs(6.0), &[("csv_vs_sql", 0.83)]));
    assert!(shown.contains("as fast here, but not as safe"), "{shown}");
    let shown = said(&with_ratios(rungs(20.0), &[("csv_vs_sql", 0.25)]));
    assert!(shown.contains("tuned SQL is faster here, but not as safe"), "{shown}");
    assert!(shown.contains("(4.0 times slower"), "{shown}");
}

#[test]
fn many_threads_stand_beside_as_many_where_these_were_measured() {
    let mut tour = overview();
    let writer = |report: &ExperimentReport| {
        of(report).into_iter().find(|it| it.experiment == "writer").expect("of the Writer")
    };
    let said = writer(&tour);
    assert_eq!(said.beside.as_deref(), Some("one thread of plain SQLite (64 of ours)"));
    let ours = "durable, leafpress, 64 blocking";
    let ours = tour.rungs.iter().find(|rung| rung.name == ours).expect("the rung").clone();
    tour.rungs.push(Rung {
        name: "durable, SQL, mutex, 64 blocking".to_owned(),
        is_ours: false,
        per_second: 31_000.0,
        ..ours
    });
    let said = writer(&tour);
    assert_eq!(said.beside.as_deref(), Some("64 threads of plain SQLite"));
    let expected = "as many threads that take turns at one connection of plain SQLite, with the \
                    same settings, 31,000 a second (15 times faster; another run: ";
    assert!(said.text.contains(expected), "{}", said.text);
}

#[test]
fn a_promise_on_a_disk_that_may_not_sync_has_its_condition() {
    let doubted = |verdict: serde_json::Value| {
        said(&ExperimentReport { storage: Some(json!({"verdict": verdict})), ..overview() })
    };
    let condition = ", if this disk keeps what it syncs";
    let warned = json!({"profile": "durable", "why": [], "warnings": ["it stalls"]});
    // Of an earlier version: any warning counts.
    assert!(doubted(warned.clone()).contains(&format!("and loses nothing{condition}\n")));
    assert!(doubted(warned.clone()).contains(&format!("takes nothing of them{condition}.")));
    let mut known = warned;
    known["promise_in_doubt"] = false.into();
    assert!(!doubted(known.clone()).contains(condition));
    known["promise_in_doubt"] = true.into();
    assert!(doubted(known).contains(condition));
}

/// The review's figures: the rounds' ratios of that run were 7.3 and 4.3 where the printed
/// medians make 9.9 and 3.5.
#[test]
fn a_multiple_is_the_quotient_of_what_stands_before_it() {
    let mut tour = overview();
    for rung in &mut tour.rungs {
        match rung.name.as_str() {
            "durable, leafpress, 64 × cycle" => rung.per_second = 95_700.0,
            "durable, SQL, mutex, 64 × cycle" => rung.per_second = 9_650.0,
            _ => {}
        }
    }
    let ratio =
        Ratio { value: 7.3, min: 6.0, max: 9.0, low: Some(3.8), high: Some(14.0), bound_by: None };
    tour.ratios.insert("cycle64".to_owned(), ratio);
    let text = said(&tour);
    let expected = "9,650 a second with a table and SQL written by hand, at its best (9.9 times \
                    faster; another run: 3.8 to 14).";
    assert!(text.contains(expected), "{text}");
    // A range of pairs that the quotient is outside of is widened to it.
    tour.ratios.insert("cycle64".to_owned(), Ratio { high: Some(8.0), ..ratio });
    assert!(said(&tour).contains("(9.9 times faster; another run: 3.8 to 9.9)"));
}
