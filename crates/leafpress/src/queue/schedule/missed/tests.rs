//! Occurrences that get a job, by rule and by the delay of the look.

use proptest::prelude::*;

use super::*;

const HOUR_MS: i64 = 3_600_000;
/// A whole hour: 2026-11-21 12:00 UTC.
const NOON_MS: i64 = 1_795_262_400_000;

fn hourly() -> Recurrence {
    Recurrence::parse("@hourly", "UTC").unwrap()
}

fn look(missed: Missed, late_ms: i64) -> Due {
    decide(&hourly(), missed, NOON_MS, NOON_MS + late_ms, 100)
}

fn fired_and_next(fired_hours: &[i64], next_hour: i64) -> Due {
    let at_ms = |hour: &i64| NOON_MS + hour * HOUR_MS;
    Due { fired_ms: fired_hours.iter().map(at_ms).collect(), next_at_ms: Some(at_ms(&next_hour)) }
}

#[test]
fn an_occurrence_that_is_met_in_time_is_fired_whatever_the_rule() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        for late_ms in [0, 5, MISSED_AFTER_MS] {
            assert_eq!(look(missed, late_ms), fired_and_next(&[0], 1), "{missed} {late_ms}");
        }
    }
}

#[test]
fn one_that_was_missed_is_skipped_or_made_up_for() {
    assert_eq!(look(Missed::Skip, MISSED_AFTER_MS + 1), fired_and_next(&[], 1));
    assert_eq!(look(Missed::Once, MISSED_AFTER_MS + 1), fired_and_next(&[0], 1));
    assert_eq!(look(Missed::All, MISSED_AFTER_MS + 1), fired_and_next(&[0], 1));
}

#[test]
fn of_several_the_rule_picks() {
    let late_ms = 3 * HOUR_MS + 1;
    assert_eq!(look(Missed::Skip, late_ms), fired_and_next(&[3], 4), "the last is in time");
    assert_eq!(look(Missed::Skip, late_ms + MISSED_AFTER_MS), fired_and_next(&[], 4));
    assert_eq!(look(Missed::Once, late_ms), fired_and_next(&[3], 4));
    assert_eq!(look(Missed::All, late_ms), fired_and_next(&[0, 1, 2, 3], 4));
}

#[test]
fn all_has_a_limit_per_look_and_goes_on_with_the_next() {
    let due = decide(&hourly(), Missed::All, NOON_MS, NOON_MS + 5 * HOUR_MS, 4);
    assert_eq!(due, fired_and_next(&[0, 1, 2, 3], 4));
    let rest = decide(&hourly(), Missed::All, due.next_at_ms.unwrap(), NOON_MS + 5 * HOUR_MS, 4);
    assert_eq!(rest, fired_and_next(&[4, 5], 6));
}

#[test]
fn the_last_occurrence_of_all_ends_the_schedule() {
    let new_year = Recurrence::parse("0 0 0 1 1 * 2027", "UTC").unwrap();
    let at_ms = new_year.next_after_ms(NOON_MS).unwrap();
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        let due = decide(&new_year, missed, at_ms, at_ms + 5, 100);
        assert_eq!(due, Due { fired_ms: vec![at_ms], next_at_ms: None });
    }
}

#[test]
fn rules_are_written_as_words() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        assert_eq!(missed.to_string().parse::<Missed>().unwrap(), missed);
    }
    assert!("Never".parse::<Missed>().unwrap_err().to_string().contains("skip, once or all"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_occurrence_is_met_once_however_one_looks(
        cron in prop_oneof![
            Just("*/7 * * * *"), Just("30 2 * * *"), Just("@hourly"), Just("*/20 * * * * *"),
        ],
        missed in prop_oneof![Just(Missed::Skip), Just(Missed::Once), Just(Missed::All)],
        // Backwards too: then there is nothing to do, and nothing is repeated.
        steps_s in prop::collection::vec(-2_000_i64..20_000, 1..60),
        jobs_max in 1_usize..20,
    ) {
        let recurrence = Recurrence::parse(cron, "Europe/Berlin").unwrap();
        let start_ms = NOON_MS - 30 * 24 * HOUR_MS; // Before the clocks went back.
        let first_ms = recurrence.next_after_ms(start_ms).unwrap();
        let (mut now_ms, mut next_at_ms, mut fired_ms) = (start_ms, first_ms, Vec::new());
        for step_s in steps_s {
            now_ms += step_s * 1000;
            if next_at_ms <= now_ms {
                let due = decide(&recurrence, missed, next_at_ms, now_ms, jobs_max);
                prop_assert!(due.fired_ms.len() <= jobs_max);
                prop_assert!(due.next_at_ms.unwrap() > next_at_ms, "it only moves on");
                prop_assert!(due.fired_ms.iter().all(|&at_ms| at_ms <= now_ms));
                fired_ms.extend(due.fired_ms);
                next_at_ms = due.next_at_ms.unwrap();
            }
        }
        prop_assert!(fired_ms.is_sorted_by(|a, b| a < b), "none twice, all in order");
        let mut expected_ms = Vec::new();
        let mut at_ms = first_ms;
        while at_ms < next_at_ms {
            expected_ms.push(at_ms);
            at_ms = recurrence.next_after_ms(at_ms).unwrap();
        }
        prop_assert_eq!(at_ms, next_at_ms, "the next one is an occurrence");
        if missed == Missed::All {
            prop_assert_eq!(fired_ms, expected_ms);
        } else {
            prop_assert!(fired_ms.iter().all(|at_ms| expected_ms.contains(at_ms)));
        }
    }
}
