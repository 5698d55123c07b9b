//! The meaning of texts, on ordinary days and on odd ones.
//!
//! The oracle goes minute by minute through the local time, so it knows the
//! rule for several times of day and nothing of how they are found.

use std::collections::BTreeSet;

use jiff::Zoned;
use proptest::prelude::*;

use super::*;

const MINUTE_MS: i64 = 60_000;

fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// The first few occurrences after a moment, in the zone's own time.
fn following(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let recurrence = Recurrence::parse(cron, zone).unwrap();
    let mut at_ms = at(after);
    (0..count)
        .map_while(|_| {
            at_ms = recurrence.next_after_ms(at_ms)?;
            let zoned =
                Timestamp::from_millisecond(at_ms).unwrap().to_zoned(recurrence.zone.clone());
            Some(zoned.strftime("%Y-%m-%d %H:%M:%S %:z").to_string())
        })
        .collect()
}

fn reason(expression: &str) -> String {
    let reason = parse_cron(expression).unwrap_err().reason;
    let (start, reason) = reason.split_once(" is not a cron expression: ").unwrap();
    let shown = start.trim_matches('"').trim_end_matches('…');
    assert!(expression.starts_with(shown), "{start}");
    reason.to_owned()
}

#[test]
fn expressions_mean_what_they_mean_in_crontab() {
    let after = "2026-11-21T12:30:00.5Z"; // A Saturday.
    for (cron, next) in [
        ("31 12 * * *", "2026-11-21 12:31:00 +00:00"),
        ("30 12 * * *", "2026-11-22 12:30:00 +00:00"),
        ("*/20 * * * *", "2026-11-21 12:40:00 +00:00"),
        ("*/10 * * * * *", "2026-11-21 12:30:10 +00:00"),
        ("* * * * * *", "2026-11-21 12:30:01 +00:00"),
        ("0 9 * * MON-FRI", "2026-11-23 09:00:00 +00:00"),
        ("0 9 * * 1-5", "2026-11-23 09:00:00 +00:00"),
        ("0 9 * * 7", "2026-11-22 09:00:00 +00:00"),
        ("0 0 1 jan *", "2027-01-01 00:00:00 +00:00"),
        ("0 0 1 * MON", "2026-11-23 00:00:00 +00:00"),
        ("0 0 1 * +MON", "2027-02-01 00:00:00 +00:00"),
        ("0 0 L * *", "2026-11-30 00:00:00 +00:00"),
        ("0 0 * * FRI#2", "2026-12-11 00:00:00 +00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00:00 +00:00"),
        ("@hourly", "2026-11-21 13:00:00 +00:00"),
        ("@daily", "2026-11-22 00:00:00 +00:00"),
        ("@midnight", "2026-11-22 00:00:00 +00:00"),
        ("@weekly", "2026-11-22 00:00:00 +00:00"),
        ("@monthly", "2026-12-01 00:00:00 +00:00"),
        ("@yearly", "2027-01-01 00:00:00 +00:00"),
        (" 0   0 1 1 *\n", "2027-01-01 00:00:00 +00:00"),
    ] {
        assert_eq!(following(cron, "UTC", after, 1), [next], "{cron}");
    }
}

#[test]
fn a_bad_expression_is_refused_with_the_field_at_fault() {
    assert_eq!(reason("61 * * * *"), "field 1 (minute), \"61\": number out of bounds");
    for (expression, place) in [
        ("0 25 * * *", "field 2 (hour), \"25\": "),
        ("0 0 0 32 * *", "field 4 (day of the month), \"32\": "),
        ("*/0 * * * *", "field 1 (minute), \"*/0\": "),
        ("0 0 5-1 * *", "field 3 (day of the month), \"5-1\": "),
    ] {
        assert!(reason(expression).starts_with(place), "{}", reason(expression));
    }
    let misplaced = "it has a character that means nothing there";
    assert_eq!(reason("0 0 * FOO *"), format!("field 4 (month), \"FOO\": {misplaced}"));
    assert_eq!(reason("0 0 * * MOON"), format!("field 5 (day of the week), \"MOON\": {misplaced}"));
    assert_eq!(reason("* * * *"), "it has 4 fields, not five, six or seven");
    assert_eq!(reason(""), "it has 0 fields, not five, six or seven");
    let empty = "an item of its list is empty";
    assert_eq!(reason("1,2,,3 * * * *"), format!("field 1 (minute), \"1,2,,3\": {empty}"));
    assert_eq!(reason("* ,1 * * *"), format!("field 2 (hour), \",1\": {empty}"));
    assert_eq!(reason("0 0 0 1 1, *"), format!("field 5 (month), \"1,\": {empty}"));
    assert_eq!(reason("@fortnightly"), "there is no such name");
    assert_eq!(reason("@reboot"), "a queue does not know when its machine starts");
    assert_eq!(reason(&"1,".repeat(300)), "it is 600 bytes long, and 512 are allowed");
    let bad = parse_cron("every day").unwrap_err();
    assert!(bad.to_do.contains("30 2 * * MON-FRI"), "{}", bad.to_do);
}

#[test]
fn zones_are_known_by_their_names_only() {
    for name in ["UTC", "utc", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"] {
        parse_zone(name).unwrap();
    }
    for name in ["", "Mars/Olympus", "+02:00", "CET-1CEST,M3.5.0,M10.5.0", "../../etc/passwd"] {
        let bad = parse_zone(name).unwrap_err();
        assert!(bad.reason.contains(name) && bad.to_do.contains("Europe/Berlin"), "{bad:?}");
    }
}

#[test]
fn a_day_on_which_two_thirty_is_missing_has_it_after_the_gap() {
    let days = following("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
    assert_eq!(
        days,
        ["2026-03-28 02:30:00 +01:00", "2026-03-29 03:00:00 +02:00", "2026-03-30 02:30:00 +02:00"]
    );
}

/// Samoa went to the other side of the date line.
#[test]
fn a_day_that_is_missing_as_a_whole_is_left_out() {
    for (cron, days) in [
        ("0 12 * * *", ["2011-12-29 12:00:00 -10:00", "2011-12-31 12:00:00 +14:00"]),
        ("0 0 * * *", ["2011-12-29 00:00:00 -10:00", "2011-12-31 00:00:00 +14:00"]),
        ("0 12 30 * *", ["2012-01-30 12:00:00 +14:00", "2012-03-30 12:00:00 +14:00"]),
        ("0 0 12 30 12 * 2011-2013", ["2012-12-30 12:00:00 +14:00", "2013-12-30 12:00:00 +14:00"]),
    ] {
        assert_eq!(following(cron, "Pacific/Apia", "2011-12-28T23:00:00Z", 2), days, "{cron}");
    }
    let only = following("0 0 12 30 12 * 2011", "Pacific/Apia", "2011-12-01T00:00:00Z", 1);
    assert_eq!(only, [""; 0], "it never comes");
}

#[test]
fn a_day_on_which_two_thirty_comes_twice_has_it_once() {
    let days = following("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(days, ["2026-10-25 02:30:00 +02:00", "2026-10-26 02:30:00 +01:00"]);
}

#[test]
fn intervals_leave_the_gap_out_and_go_through_the_repeated_hour_twice() {
    let spring = following("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2);
    assert_eq!(spring, ["2026-03-29 01:30:00 +01:00", "2026-03-29 03:30:00 +02:00"]);
    let autumn = following("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3);
    assert_eq!(
        autumn,
        ["2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00", "2026-10-25 03:30:00 +01:00"]
    );
    let twice = following("30 2,14 * * *", "Europe/Berlin", "2026-03-28T20:00:00Z", 1);
    assert_eq!(twice, ["2026-03-29 14:30:00 +02:00"]);
}

#[test]
fn what_never_happens_has_no_next_occurrence() {
    for cron in ["0 0 31 2 *", "0 0 30 FEB *", "0 0 0 1 1 * 1969"] {
        assert_eq!(reason(cron), "it never happens");
    }
    let over = following("0 0 0 1 1 * 2020", "Europe/Berlin", "2026-11-21T12:00:00Z", 1);
    assert_eq!(over, [""; 0], "a year that is over");
}

#[test]
fn moments_beyond_the_calendar_have_no_next_occurrence() {
    let recurrence = Recurrence::parse("* * * * *", "Europe/Berlin").unwrap();
    for after_ms in [i64::MIN, i64::MAX, 253_402_207_200_000] {
        assert_eq!(recurrence.next_after_ms(after_ms), None);
    }
}

/// One field: some of its values, and how to write them.
fn field(
    first: u32,
    last: u32,
    count_min: usize,
) -> impl Strategy<Value = (String, BTreeSet<u32>)> {
    let all = move || (first..=last).collect::<BTreeSet<u32>>();
    prop_oneof![
        Just(("*".to_owned(), all())),
        (2..=(last - first) / 2).prop_map(move |step| {
            (format!("*/{step}"), all().into_iter().step_by(step as usize).collect())
        }),
        prop::collection::btree_set(first..=last, count_min.max(1)..4).prop_map(|values| {
            let text: Vec<String> = values.iter().map(u32::to_string).collect();
            (text.join(","), values)
        }),
    ]
}

/// Five fields with more than one time of day, and the values of each.
fn expression() -> impl Strategy<Value = (String, [BTreeSet<u32>; 5])> {
    let fields =
        (field(0, 59, 2), field(0, 23, 1), field(1, 31, 1), field(1, 12, 1), field(0, 6, 1));
    let all = fields.prop_map(|(a, b, c, d, e)| {
        (format!("{} {} {} {} {}", a.0, b.0, c.0, d.0, e.0), [a.1, b.1, c.1, d.1, e.1])
    });
    // The 30th of February is refused, and a test of its own.
    all.prop_filter("it happens", |(text, _)| parse_cron(text).is_ok())
}

/// Does a local minute match? Either day field is enough if neither is a star.
fn matches(expression: &str, values: &[BTreeSet<u32>; 5], local: &Zoned) -> bool {
    let fields: Vec<&str> = expression.split(' ').collect();
    let has = |index: usize, value: i8| values[index].contains(&(value as u32));
    let (day, weekday) = (has(2, local.day()), has(4, local.weekday().to_sunday_zero_offset()));
    let is_day = if fields[2] == "*" || fields[4] == "*" { day && weekday } else { day || weekday };
    has(0, local.minute()) && has(1, local.hour()) && has(3, local.month()) && is_day
}

/// Moments at which clocks jump by an hour, by half an hour, at midnight, and by a day.
const ODD_MOMENTS: [(&str, &str); 8] = [
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn several_times_of_day_are_the_minutes_that_match(
        (cron, values) in expression(),
        odd in 0..ODD_MOMENTS.len(),
        before_minutes in 0_i64..3_000,
    ) {
        let (zone, moment) = ODD_MOMENTS[odd];
        let recurrence = Recurrence::parse(&cron, zone).unwrap();
        let start_ms = at(moment) - before_minutes * MINUTE_MS;
        let minutes = (1..6_000).map(|minute| start_ms + minute * MINUTE_MS);
        let expected: Vec<i64> = minutes
            .filter(|&at_ms| {
                let local = Timestamp::from_millisecond(at_ms).unwrap();
                matches(&cron, &values, &local.to_zoned(recurrence.zone.clone()))
            })
            .collect();
        let mut at_ms = start_ms;
        for expected_ms in expected {
            at_ms = recurrence.next_after_ms(at_ms).unwrap();
            prop_assert_eq!(at_ms, expected_ms, "{} in {}", cron, zone);
        }
    }

    #[test]
    fn one_goes_forwards_and_misses_none(
        cron in prop_oneof![
            expression().prop_map(|(text, _)| text),
            (0..60, 0..24).prop_map(|(minute, hour)| format!("{minute} {hour} * * *")),
            (0..60, 0..60, 0..24).prop_map(|(s, m, h)| format!("{s} {m} {h} * * SUN")),
        ],
        odd in 0..ODD_MOMENTS.len(),
        offset_ms in -200_000_000_i64..200_000_000,
        later_ms in 1_i64..100_000_000,
    ) {
        let (zone, moment) = ODD_MOMENTS[odd];
        let recurrence = Recurrence::parse(&cron, zone).unwrap();
        let start_ms = at(moment) + offset_ms;
        let later_ms = start_ms + later_ms;
        if let Some(next_ms) = recurrence.next_after_ms(start_ms) {
            prop_assert!(next_ms > start_ms && next_ms % 1000 == 0);
            let after_later = recurrence.next_after_ms(later_ms);
            if later_ms < next_ms {
                prop_assert_eq!(after_later, Some(next_ms), "{} in {}", cron, zone);
            } else {
                prop_assert!(after_later.is_none_or(|after_ms| after_ms > next_ms));
            }
            // The last of many, found by halving, is the last found one by one.
            if later_ms >= next_ms {
                let mut last_ms = next_ms;
                while let Some(ms) = recurrence.next_after_ms(last_ms).filter(|&ms| ms <= later_ms) {
                    last_ms = ms;
                }
                prop_assert_eq!(recurrence.last_until_ms(next_ms, later_ms), last_ms);
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(
        text in prop_oneof![
            any::<String>(),
            "[-0-9*/,#LW?+@ A-Za-z]{0,40}",
            "([-0-9*/,#LW?+MONSUFRIJA]{1,8} ){4,6}[-0-9*/,#L]{1,4}",
        ],
        zone in prop_oneof![Just("Europe/Berlin".to_owned()), any::<String>(), "[A-Za-z/_.]{0,20}"],
        after_ms in any::<i64>(),
    ) {
        if let Ok(recurrence) = Recurrence::parse(&text, &zone) {
            for start_ms in [after_ms, 1_700_000_000_000] {
                let next_ms = recurrence.next_after_ms(start_ms);
                prop_assert!(next_ms.is_none_or(|next_ms| next_ms > start_ms));
            }
        }
    }
}
