//! The verdict from reports that nobody measured: what it says, and what it must not.

use serde_json::json;

use super::of;
use crate::made_up::{ours, report, rung, tour, with_ratios};
use crate::report::{Advice, ExperimentReport, Noise, Ratio, Safety, Simulated};

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
    let tour = tour();
    let all = of(&tour);
    assert_eq!(
        all[0].headline,
        "On this disk: use the profile durable; it is 260 times faster than the default and \
         loses nothing"
    );
    let experiments: Vec<&str> = all.iter().map(|it| it.experiment.as_str()).collect();
    let expected =
        ["queue-inserts", "ladder", "presort", "writer", "queue-inserts", "checkpoint", "queue"];
    assert_eq!(experiments, expected);
    assert_eq!(all[0].times, tour.ratios.get("queue_inserts_vs_default").copied());
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
        "On this disk, 100,000 rows take 9.0 ms instead of about 14.0 s by SQLite's default (1,600 \
         times), and a power cut takes nothing of them.",
        "The best other way that is as safe, \"WAL + FULL\", takes 0.12 s (13 times).",
        "Without a library: \"WAL + FULL\"",
        "\"WAL + NORMAL\" takes 30 ms, but may lose the last moments before a power cut.",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn presort_stands_beside_rows_as_they_come_and_no_default() {
    let text = said(&tour());
    assert!(text.contains("take 0.13 s instead of 5.80 s by plain SQLite as they come"), "{text}");
}

#[test]
fn what_can_corrupt_is_never_advised() {
    for report in [ladder(0.009, 0.12), tour()] {
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
    assert!(text.contains("take 0.12 s that way and 0.24 s by ours"), "{text}");
}

#[test]
fn what_another_run_may_turn_round_is_no_difference() {
    let mut report = ladder(0.07, 0.12);
    let shaky = Ratio { low: Some(0.9), high: Some(3.0), ..Ratio::exactly(1.7) };
    report.ratios.insert("ladder_vs_equal".to_owned(), shaky);
    assert!(said(&report).contains("is as fast here"), "{}", said(&report));
}

#[test]
fn noise_decides_what_a_difference_is() {
    let mut report = ladder(0.08, 0.12);
    assert!(said(&report).contains("(1.5 times)"), "{}", said(&report));
    report.noise = Some(Noise { times: 1.6, ..Noise::default() });
    assert!(said(&report).contains("is as fast here"), "{}", said(&report));
    report.noise = None;
    assert!(said(&report).contains("(1.5 times)"), "{}", said(&report));
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
    assert!(durable.headline.ends_with("20 times faster than the default and loses nothing"));
    assert!(durable.text.ends_with("Why this profile: it is so."), "{}", durable.text);
    let relaxed = on("relaxed");
    assert!(
        relaxed.headline.contains("profile relaxed; it is 100 times faster than the default and")
            && relaxed.headline.ends_with("may lose the last moments before a power cut"),
        "{}",
        relaxed.headline
    );
    let rollback = on("rollback");
    assert_eq!(rollback.headline, "On this disk: use the profile rollback; it loses nothing");
    assert_eq!((rollback.text.as_str(), rollback.times), ("Why this profile: it is so.", None));
    // What is no profile is none.
    assert!(on("fast").headline.contains("use the profile durable"));
}

#[test]
fn a_profile_that_is_not_faster_is_not_called_so() {
    let report = report(vec![
        rung("cycles", "rows", "default", Safety::Relaxed, 1.0),
        rung("cycles", "rows", "WAL", Safety::Durable, 0.5),
        ours("cycles", "rows", "Writer", Safety::Durable, 0.95),
    ]);
    let all = of(&report);
    assert_eq!(all[0].headline, "On this disk: use the profile durable; it loses nothing");
    assert_eq!(all[0].times, None);
    assert!(said(&report).contains("plain SQLite with \"WAL\" is 1.9 times faster here"));
}

#[test]
fn a_simulated_disk_is_named() {
    let simulated = Simulated { name: "sdcard".to_owned(), ..Simulated::default() };
    let report = ExperimentReport { simulated: Some(simulated), ..tour() };
    let text = said(&report);
    assert!(text.contains("On the simulated sdcard") && !text.contains("this disk"), "{text}");
}

#[test]
fn batches_that_slow_down_are_said() {
    let text = said(&tour());
    let expected = "As they come, the first batch takes 0.21 s and the last 0.95 s, as the table has \
                    grown; ours take 12 ms and 14 ms.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_one_caller_or_one_client_pays_is_said() {
    let mut tour = tour();
    let shown = said(&tour);
    assert!(shown.contains("make 468,000 transactions a second"), "{shown}");
    assert!(shown.contains("One caller alone gains nothing from it."), "{shown}");
    for (name, value) in [("alone", 0.5), ("cycle1", 0.8), ("blocking64", 0.4)] {
        tour.ratios.insert(name.to_owned(), Ratio::exactly(value));
    }
    tour.ratios.insert("worst_commit".to_owned(), Ratio::exactly(0.41));
    tour.ratios.insert("p999_commit_slow".to_owned(), Ratio::exactly(0.25));
    let shown = said(&tour);
    for expected in [
        "Many small transactions: plain SQLite is faster here",
        "plain SQLite is 2.0 times faster.",
        "One client alone, the table by hand is 1.2 times faster.",
        "But the slowest commit of all is ours",
        "Where each sync takes 20 ms longer, SQLite's own are 4.0 times better.",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

#[test]
fn single_commits_say_where_a_log_is_faster_and_why_there_is_no_gain() {
    let mut tour = tour();
    tour.rungs.retain(|rung| rung.experiment == "atomic");
    tour.storage = None;
    tour.ratios.retain(|name, _| name.starts_with("atomic"));
    let shown = said(&tour);
    assert!(shown.contains("is 2.0 times as fast as one with a journal"), "{shown}");
    assert!(shown.contains("is 1.4 times faster than that"), "{shown}");
    tour.ratios.clear();
    let shown = said(&tour);
    assert!(shown.contains("writes a journal as SQLite does: this disk does not write"), "{shown}");
}

#[test]
fn a_csv_file_is_compared_with_what_is_less_safe() {
    let name = |rung: crate::report::Rung, name: &str| crate::report::Rung {
        name: name.to_owned(),
        ..rung
    };
    let rungs = |ours_s| {
        let sql = rung("load", "csv", "SQL", Safety::Rebuildable, 5.0);
        let ours = ours("load", "csv", "leafpress", Safety::Durable, ours_s);
        vec![
            name(sql, "csv, SQL, types known, one row a statement"),
            name(ours, "csv, leafpress, types detected"),
        ]
    };
    let shown = said(&with_ratios(rungs(1.0), &[("csv_vs_sql", 5.0)]));
    assert!(shown.contains("syncs nothing takes 5.00 s (5.0 times)"), "{shown}");
    let shown = said(&with_ratios(rungs(6.0), &[("csv_vs_sql", 0.83)]));
    assert!(shown.contains("as fast here, but not as safe"), "{shown}");
}
