//! Schedules in a queue, by a clock that is set by hand.

use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::fire::JOBS_PER_LOOK_MAX;
use super::*;
use crate::queue::Queue;
use crate::queue::{Claim, ClaimOptions, Clock, ListOptions, ManualClock, UniqueFor};
use crate::writer::Writer;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// 2026-11-21 12:00 UTC, a Saturday.
const NOON_MS: i64 = 1_795_262_400_000;

struct Stage {
    queue: Queue,
    time: ManualClock,
    folder: tempfile::TempDir,
}

/// A queue at noon.
fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let (clock, time) = Clock::manual(NOON_MS);
    Stage { queue: open(folder.path(), clock), time, folder }
}

fn open(folder: &Path, clock: Clock) -> Queue {
    let writer = Writer::builder(folder.join("queue.db")).open().unwrap();
    Queue::builder(&writer, "reports").clock(clock).open().unwrap()
}

#[test]
fn the_schedules_of_a_paused_queue_go_on() {
    let Stage { queue, time, folder: _folder } = stage();
    queue.schedule(&hourly()).unwrap();
    queue.pause().unwrap();
    for hour in 0..3 {
        time.set_ms(NOON_MS + hour * HOUR_MS);
        let found = queue.look(&ClaimOptions::new()).unwrap();
        assert!(found.claims.is_empty());
        let next_ms = NOON_MS + (hour + 1) * HOUR_MS;
        assert_eq!(found.next_due_ms, Some(next_ms), "a waiting consumer looks then");
        assert_eq!(queue.stats().unwrap().jobs.ready, hour as u64);
    }
}

fn hourly() -> Schedule {
    Schedule::cron("report", "@hourly").unwrap().job("payload")
}

impl Stage {
    /// All that can be claimed now, acked; one look a millisecond, as due changes are made.
    fn claim_all(&self) -> Vec<Claim> {
        let mut all = Vec::new();
        loop {
            let claims = self.queue.claim_with(&ClaimOptions::new().jobs_max(1_000)).unwrap();
            if claims.is_empty() {
                return all;
            }
            for claim in &claims {
                self.queue.ack(claim.token).unwrap();
            }
            all.extend(claims);
            self.time.advance_ms(1);
        }
    }

    fn claim_hours(&self) -> Vec<i64> {
        self.claim_all().iter().map(|claim| (occurrence_ms(claim) - NOON_MS) / HOUR_MS).collect()
    }

    fn info(&self) -> ScheduleInfo {
        let [info] = <[_; 1]>::try_from(self.queue.schedules().unwrap()).unwrap();
        info
    }

    fn edit(&self, change: &str) {
        let sql = format!("UPDATE leafpress_schedule SET {change} WHERE name = 'report'");
        assert_eq!(self.queue.writer().execute(sql, ()).unwrap().rows_changed, 1);
    }
}

/// Occurrence that a job came from.
fn occurrence_ms(claim: &Claim) -> i64 {
    let metadata: serde_json::Value =
        serde_json::from_str(claim.metadata.as_deref().unwrap()).unwrap();
    let occurrence = &metadata["leafpress_schedule"];
    let at_ms = occurrence["at_ms"].as_i64().unwrap();
    let at: jiff::Timestamp = occurrence["at"].as_str().unwrap().parse().unwrap();
    assert_eq!(at.as_millisecond(), at_ms);
    at_ms
}

#[test]
fn a_job_is_pushed_when_its_time_has_come_and_tells_which() {
    let stage = stage();
    stage.queue.schedule(&hourly()).unwrap();
    assert_eq!(stage.info().next_at.map(UnixTime::as_ms), Some(NOON_MS + HOUR_MS));
    stage.time.set_ms(NOON_MS + HOUR_MS - 1);
    assert!(stage.queue.claim().unwrap().is_none(), "a millisecond too early");
    stage.time.set_ms(NOON_MS + HOUR_MS);
    let claim = stage.queue.claim().unwrap().unwrap();
    assert_eq!(claim.payload, Payload::bytes("payload"));
    assert_eq!(claim.correlation_id.as_deref(), Some("report@2026-11-21T13:00:00Z"));
    assert_eq!(
        claim.metadata.as_deref(),
        Some(
            r#"{"leafpress_schedule":{"name":"report","at":"2026-11-21T13:00:00Z","at_ms":1795266000000}}"#
        )
    );
    stage.time.advance_ms(1);
    assert!(stage.queue.claim().unwrap().is_none(), "once");
    let info = stage.info();
    assert_eq!(info.last_at.map(UnixTime::as_ms), Some(NOON_MS + HOUR_MS));
    assert_eq!(info.next_at.map(UnixTime::as_ms), Some(NOON_MS + 2 * HOUR_MS));
}

#[test]
fn a_job_is_as_its_template() {
    let stage = stage();
    let job = Job::json(&[17])
        .unwrap()
        .priority(7)
        .group("group")
        .attempts_max(3)
        .expires_in(Duration::from_secs(60))
        .correlation_id("own")
        .metadata_json(r#"{ "big": 123456789012345678901234567890, "leafpress_schedule": 1 }"#)
        .unwrap();
    stage.queue.schedule(&hourly().job(job)).unwrap();
    stage.time.advance_ms(HOUR_MS);
    let claim = stage.queue.claim().unwrap().unwrap();
    assert_eq!(claim.payload, Payload::Json("[17]".to_owned()));
    assert_eq!((claim.priority, claim.attempts_max, claim.group.as_deref()), (7, 3, Some("group")));
    assert_eq!(claim.correlation_id.as_deref(), Some("own"));
    let metadata = claim.metadata.as_deref().unwrap();
    assert!(metadata.contains("123456789012345678901234567890"), "digits stay: {metadata}");
    assert_eq!(occurrence_ms(&claim), NOON_MS + HOUR_MS);
    let expires_at_ms = stage.queue.writer().reader().unwrap().query_row(
        "SELECT expires_at_ms FROM leafpress_job",
        [],
        |row| row.get::<_, i64>(0),
    );
    assert_eq!(expires_at_ms.unwrap(), NOON_MS + HOUR_MS + 60_000);
}

/// The expiry counts from the occurrence, however late it is met.
#[test]
fn an_occurrence_that_is_met_after_its_expiry_is_a_dead_letter() {
    for (rule, dead) in [(Missed::Once, 1), (Missed::All, 3), (Missed::Skip, 0)] {
        let stage = stage();
        let job = Job::bytes("payload").expires_in(Duration::from_secs(30 * 60));
        stage.queue.schedule(&hourly().missed(rule).job(job)).unwrap();
        // 13:00, 14:00 and 15:00 have passed.
        stage.time.advance_ms(3 * HOUR_MS + 40 * MINUTE_MS);
        assert_eq!(stage.claim_all().len(), 0, "{rule}");
        assert_eq!(stage.queue.stats().unwrap().jobs.dead, dead, "{rule}");
        let jobs = stage.queue.list(&ListOptions::new()).unwrap();
        assert!(jobs.iter().all(|job| job.error.as_deref() == Some("expired")), "{jobs:?}");
        stage.time.advance_ms(40 * MINUTE_MS);
        // That of 16:00, which is worth running until 16:30.
        assert_eq!(stage.claim_all().len(), usize::from(rule != Missed::Skip), "{rule}");
    }
}

#[test]
fn a_schedule_of_past_years_is_refused_unless_it_is_there_already() {
    let stage = stage();
    let over = Schedule::cron("report", "0 0 0 1 1 * 2020").unwrap();
    let error = stage.queue.schedule(&over).unwrap_err().to_string();
    assert!(error.contains("its last moment has passed"), "{error}");
    assert!(stage.queue.schedules().unwrap().is_empty());
    // As each process may say at its start.
    let last = Schedule::cron("report", "0 0 13 21 11 * 2026").unwrap();
    stage.queue.schedule(&last).unwrap();
    stage.time.advance_ms(HOUR_MS);
    assert_eq!(stage.claim_all().len(), 1);
    stage.queue.schedule(&last).unwrap();
    assert_eq!(stage.info().next_at, None);
}

#[test]
fn an_occurrence_is_left_out_while_the_last_one_waits() {
    let stage = stage();
    for (scope, jobs) in [(UniqueFor::Waiting, 1), (UniqueFor::Time(Duration::from_secs(90)), 2)] {
        let job = Job::bytes("payload").unique("key", scope);
        let schedule = Schedule::cron("report", "* * * * *").unwrap();
        stage.queue.schedule(&schedule.missed(Missed::All).job(job)).unwrap();
        let info = stage.info();
        // Each look meets one occurrence, but the queue is paused.
        stage.queue.writer().execute("UPDATE leafpress_queue SET is_paused = 1", ()).unwrap();
        for minute in 0..3 {
            stage.time.set_ms(info.next_at.map(UnixTime::as_ms).unwrap() + minute * MINUTE_MS);
            assert!(stage.queue.claim().unwrap().is_none(), "it is paused");
        }
        stage.queue.writer().execute("UPDATE leafpress_queue SET is_paused = 0", ()).unwrap();
        assert_eq!(stage.claim_all().len(), jobs, "{scope:?}");
        let last_ms = info.next_at.map(|first| first.as_ms() + (jobs as i64 - 1) * 2 * MINUTE_MS);
        assert_eq!(stage.info().last_at.map(UnixTime::as_ms), last_ms, "that got a job");
        assert_eq!(
            stage.info().next_at.map(UnixTime::as_ms),
            info.next_at.map(UnixTime::as_ms).map(|at_ms| at_ms + 3 * MINUTE_MS)
        );
        assert!(stage.queue.unschedule("report").unwrap());
    }
}

#[test]
fn the_same_schedule_again_keeps_the_next_occurrence_and_another_does_not() {
    let stage = stage();
    stage.queue.schedule(&hourly()).unwrap();
    stage.time.set_ms(NOON_MS + HOUR_MS + MINUTE_MS);
    stage.queue.schedule(&hourly().job("new payload")).unwrap();
    assert_eq!(
        stage.info().next_at.map(UnixTime::as_ms),
        Some(NOON_MS + HOUR_MS),
        "it is still to come"
    );
    let claims = stage.claim_all();
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].payload, Payload::bytes("new payload"));

    stage.time.set_ms(NOON_MS + 2 * HOUR_MS + MINUTE_MS);
    let half_past = Schedule::cron("report", "30 * * * *").unwrap();
    stage.queue.schedule(&half_past).unwrap();
    assert_eq!(
        stage.info().next_at.map(UnixTime::as_ms),
        Some(NOON_MS + 2 * HOUR_MS + 30 * MINUTE_MS)
    );
    let elsewhere = half_past.timezone("Asia/Kathmandu").unwrap();
    stage.queue.schedule(&elsewhere).unwrap();
    assert_eq!(
        stage.info().next_at.map(UnixTime::as_ms),
        Some(NOON_MS + 2 * HOUR_MS + 45 * MINUTE_MS)
    );
    assert_eq!(stage.info().last_at.map(UnixTime::as_ms), Some(NOON_MS + HOUR_MS), "that stays");
    assert_eq!(stage.claim_hours(), [0_i64; 0]);
}

#[test]
fn schedules_are_listed_and_forgotten() {
    let stage = stage();
    for name in ["b", "a"] {
        let schedule = Schedule::cron(name, " 30 2 * * MON-FRI ").unwrap();
        let schedule = schedule.timezone("Europe/Berlin").unwrap().missed(Missed::Skip);
        stage.queue.schedule(&schedule).unwrap();
    }
    let other = Queue::open(stage.queue.writer(), "other").unwrap();
    assert!(other.schedules().unwrap().is_empty());
    assert!(!other.unschedule("a").unwrap());
    assert!(stage.queue.unschedule("b").unwrap());
    assert!(!stage.queue.unschedule("b").unwrap());
    let expected = ScheduleInfo {
        name: "a".to_owned(),
        cron: "30 2 * * MON-FRI".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        missed: Missed::Skip,
        next_at: Some(UnixTime::from_ms(1_795_397_400_000)),
        last_at: None,
        disabled_because: None,
    };
    assert_eq!(stage.info(), expected);
}

#[test]
fn a_clock_that_jumps_forwards_makes_missed_occurrences() {
    for (missed, hours) in
        [(Missed::Skip, vec![]), (Missed::Once, vec![48]), (Missed::All, (1..=48).collect())]
    {
        let stage = stage();
        stage.queue.schedule(&hourly().missed(missed)).unwrap();
        stage.time.advance_ms(48 * HOUR_MS + 30 * MINUTE_MS);
        assert_eq!(stage.claim_hours(), hours, "{missed}");
        assert_eq!(
            stage.info().next_at.map(UnixTime::as_ms),
            Some(NOON_MS + 49 * HOUR_MS),
            "{missed}"
        );
    }
}

#[test]
fn a_clock_that_jumps_backwards_repeats_nothing() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        let stage = stage();
        stage.queue.schedule(&hourly().missed(missed)).unwrap();
        stage.time.set_ms(NOON_MS + HOUR_MS);
        assert_eq!(stage.claim_hours(), [1]);
        for back_ms in [HOUR_MS, 1, 24 * HOUR_MS] {
            stage.time.set_ms(NOON_MS + HOUR_MS - back_ms);
            assert_eq!(stage.claim_hours(), [0_i64; 0], "{missed}");
            stage.queue.schedule(&hourly().missed(missed)).unwrap();
            stage.time.set_ms(NOON_MS + HOUR_MS);
            assert_eq!(stage.claim_hours(), [0_i64; 0], "{missed}");
        }
        stage.time.set_ms(NOON_MS + 2 * HOUR_MS);
        assert_eq!(stage.claim_hours(), [2]);
    }
}

#[test]
fn one_look_pushes_a_bounded_number_and_the_next_goes_on() {
    let stage = stage();
    let each_minute = Schedule::cron("report", "* * * * *").unwrap().missed(Missed::All);
    stage.queue.schedule(&each_minute).unwrap();
    stage.time.advance_ms(250 * MINUTE_MS);
    let options = ClaimOptions::new().jobs_max(10_000);
    let mut claimed = Vec::new();
    for jobs in [JOBS_PER_LOOK_MAX, JOBS_PER_LOOK_MAX, 50, 0] {
        let claims = stage.queue.claim_with(&options).unwrap();
        assert_eq!(claims.len(), jobs);
        claimed.extend(claims.iter().map(|claim| (occurrence_ms(claim) - NOON_MS) / MINUTE_MS));
        stage.time.advance_ms(1);
    }
    assert!(claimed.into_iter().eq(1..=250), "each, in order");
}

#[test]
fn many_schedules_share_the_bound() {
    let stage = stage();
    for number in 0..250 {
        let schedule = Schedule::cron(format!("report {number}"), "@hourly").unwrap();
        stage.queue.schedule(&schedule).unwrap();
    }
    stage.time.advance_ms(HOUR_MS);
    let options = ClaimOptions::new().jobs_max(10_000);
    for jobs in [JOBS_PER_LOOK_MAX, JOBS_PER_LOOK_MAX, 50, 0] {
        assert_eq!(stage.queue.claim_with(&options).unwrap().len(), jobs);
        stage.time.advance_ms(1);
    }
}

#[test]
fn a_sleeping_claimer_knows_the_next_occurrence() {
    let stage = stage();
    let next_due_ms = || stage.queue.look(&ClaimOptions::new()).unwrap().next_due_ms;
    assert_eq!(next_due_ms(), None);
    let later = Schedule::cron("later", "@daily").unwrap();
    stage.queue.schedule(&later).unwrap();
    stage.queue.schedule(&hourly()).unwrap();
    assert_eq!(next_due_ms(), Some(NOON_MS + HOUR_MS));
    for nonsense in ["'soon'", "1e300", "x'00'", "NULL"] {
        stage.edit(&format!("next_at_ms = {nonsense}"));
        assert_eq!(next_due_ms(), Some(NOON_MS + 12 * HOUR_MS), "{nonsense}");
    }
}

#[test]
fn what_is_edited_into_nonsense_is_disabled_and_no_other_schedule_suffers() {
    for (change, reason) in [
        ("cron = 'whenever'", "\"whenever\" is not a cron expression: it has 1 field,"),
        ("cron = '0 0 31 2 *'", "it never happens"),
        ("cron = x'00ff'", "the column cron has a BLOB of 2 bytes"),
        ("timezone = 'Mars/Olympus'", "\"Mars/Olympus\" is not the name of a time zone"),
        ("missed = 'maybe'", "\"maybe\" is not a rule"),
        ("priority = 'high'", "the column priority has high"),
        ("attempts_max = -1", "the column attempts_max has -1"),
        ("expires_after_ms = 0", "the job has expired by now"),
        ("metadata = '[1]'", "the metadata are no JSON object"),
        ("metadata = '{'", "the metadata are no JSON object"),
    ] {
        let stage = stage();
        stage.queue.schedule(&hourly()).unwrap();
        stage.queue.schedule(&Schedule::cron("sound", "@hourly").unwrap()).unwrap();
        stage.queue.push("pushed").unwrap();
        stage.edit(change);
        stage.time.advance_ms(HOUR_MS);
        assert_eq!(stage.claim_all().len(), 2, "one that was pushed and one of the sound schedule");
        let infos = stage.queue.schedules().unwrap();
        let because = infos[0].disabled_because.as_deref().unwrap();
        assert!(because.contains(reason), "{change}: {because}");
        assert_eq!(
            (infos[0].next_at.map(UnixTime::as_ms), infos[0].last_at.map(UnixTime::as_ms)),
            (None, None)
        );
        assert_eq!(infos[1].disabled_because, None);

        stage.queue.schedule(&hourly()).unwrap();
        let info = &stage.queue.schedules().unwrap()[0];
        assert_eq!(
            (info.next_at.map(UnixTime::as_ms), &info.disabled_because),
            (Some(NOON_MS + 2 * HOUR_MS), &None)
        );
    }
}

#[test]
fn nonsense_is_shown_before_it_comes_due() {
    let stage = stage();
    stage.queue.schedule(&hourly()).unwrap();
    stage.edit("cron = 'whenever'");
    let info = stage.info();
    assert_eq!(
        (info.cron.as_str(), info.next_at.map(UnixTime::as_ms)),
        ("whenever", Some(NOON_MS + HOUR_MS))
    );
    assert!(info.disabled_because.unwrap().contains("whenever"));
}

#[test]
fn an_occurrence_by_hand_is_fired_at_once() {
    let stage = stage();
    stage.queue.schedule(&hourly()).unwrap();
    stage.edit("next_at_ms = 1795262400001");
    stage.time.advance_ms(5);
    assert_eq!(stage.claim_all().len(), 1);
    assert_eq!(stage.info().next_at.map(UnixTime::as_ms), Some(NOON_MS + HOUR_MS));
}

#[test]
fn a_schedule_that_is_over_stays_without_a_next_occurrence() {
    let stage = stage();
    stage.queue.schedule(&Schedule::cron("report", "0 0 13 21 11 * 2026").unwrap()).unwrap();
    stage.time.advance_ms(HOUR_MS);
    assert_eq!(stage.claim_hours(), [1]);
    let info = stage.info();
    assert_eq!(
        (info.next_at.map(UnixTime::as_ms), info.last_at.map(UnixTime::as_ms)),
        (None, Some(NOON_MS + HOUR_MS))
    );
    assert_eq!(info.disabled_because, None);
}

#[test]
fn what_cannot_be_kept_is_refused_and_changes_nothing() {
    let error = Schedule::cron("report", "61 * * * *").unwrap_err().to_string();
    for part in ["\"report\"", "\"61 * * * *\"", "field 1 (minute)", "to do", "30 2 * * MON-FRI"] {
        assert!(error.contains(part), "{error}");
    }
    let error = hourly().timezone("Mars/Olympus").unwrap_err().to_string();
    assert!(error.contains("Mars/Olympus") && error.contains("Europe/Berlin"), "{error}");
    assert!(Schedule::cron("", "@hourly").is_err());

    let stage = stage();
    stage.queue.schedule(&hourly()).unwrap();
    let before = stage.info();
    for job in [
        Job::bytes("").delay(Duration::from_secs(1)),
        Job::bytes("").due(SystemTime::UNIX_EPOCH),
        Job::bytes("").expires(SystemTime::UNIX_EPOCH),
        Job::bytes("").expires_in(Duration::ZERO),
        Job::bytes("").metadata(&[1]).unwrap(),
    ] {
        let half_past = Schedule::cron("report", "30 * * * *").unwrap();
        let error = stage.queue.schedule(&half_past.job(job)).unwrap_err().to_string();
        assert!(error.contains("\"report\" cannot be kept"), "{error}");
    }
    assert_eq!(stage.info(), before);
}

#[test]
fn an_occurrence_that_was_rolled_back_is_pushed_by_the_next_look() {
    let stage = stage();
    stage.queue.schedule(&hourly()).unwrap();
    stage.time.advance_ms(HOUR_MS);
    stage
        .queue
        .writer()
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE UPDATE ON leafpress_schedule
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
        )
        .unwrap();
    stage.queue.claim().unwrap_err();
    stage.queue.writer().execute("DROP TRIGGER refuse", ()).unwrap();
    assert_eq!(stage.claim_hours(), [1], "neither lost nor doubled");
}

#[test]
fn of_two_writers_one_pushes_each_occurrence() {
    let stage = stage();
    let each_second = Schedule::cron("report", "* * * * * *").unwrap().missed(Missed::All);
    stage.queue.schedule(&each_second).unwrap();
    let (clock, other_time) = Clock::manual(NOON_MS);
    let other = open(stage.folder.path(), clock);
    let seconds = 60;
    // The two clocks may part by more than a usual lease, as a thread that waits for a
    // processor falls behind.
    let options = ClaimOptions::new().jobs_max(10).lease(Duration::from_secs(3_600));
    let work = |queue: &Queue, time: &ManualClock| {
        let mut claimed_ms = Vec::new();
        while claimed_ms.last().is_none_or(|&at_ms| at_ms < NOON_MS + seconds * 1_000) {
            let now_ms = time.now_ms();
            if now_ms >= NOON_MS + (seconds + 5) * 1_000 {
                break;
            }
            for claim in queue.claim_with(&options).unwrap() {
                claimed_ms.push(occurrence_ms(&claim));
                queue.ack(claim.token).unwrap();
            }
            time.set_ms(now_ms + 100);
        }
        claimed_ms
    };
    let mut claimed_ms = std::thread::scope(|scope| {
        let there = scope.spawn(|| work(&other, &other_time));
        let here = work(&stage.queue, &stage.time);
        [here, there.join().unwrap()].concat()
    });
    claimed_ms.sort_unstable();
    let until_ms = *claimed_ms.last().unwrap();
    assert!(until_ms >= NOON_MS + seconds * 1_000);
    let expected = (NOON_MS + 1_000..=until_ms).step_by(1_000);
    assert!(claimed_ms.iter().copied().eq(expected), "{claimed_ms:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_occurrence_is_pushed_once_whatever_the_clock_does(
        cron in prop_oneof![Just("*/7 * * * *"), Just("30 2 * * *"), Just("@hourly")],
        steps in prop::collection::vec((-90_i64..240, any::<bool>(), 0..6), 1..40),
    ) {
        let stage = stage();
        // Four weeks earlier, before the clocks were set back.
        stage.time.set_ms(NOON_MS - 28 * 24 * HOUR_MS);
        let (clock, other_time) = Clock::manual(stage.time.now_ms());
        let other = open(stage.folder.path(), clock);
        let schedule = Schedule::cron("report", cron).unwrap().timezone("Europe/Berlin").unwrap();
        let schedule = schedule.missed(Missed::All);
        stage.queue.schedule(&schedule).unwrap();
        let mut at_ms = stage.info().next_at.map(UnixTime::as_ms).unwrap();
        let mut claimed_ms = Vec::new();
        for (minutes, is_other, kind) in steps {
            let (queue, time) =
                if is_other { (&other, &other_time) } else { (&stage.queue, &stage.time) };
            time.advance_ms(minutes * MINUTE_MS);
            if kind == 0 {
                queue.schedule(&schedule).unwrap();
            }
            for claim in queue.claim_with(&ClaimOptions::new().jobs_max(1_000)).unwrap() {
                claimed_ms.push(occurrence_ms(&claim));
                queue.ack(claim.token).unwrap();
            }
        }
        for claimed_ms in claimed_ms {
            prop_assert_eq!(claimed_ms, at_ms);
            at_ms = schedule.next_after(UnixTime::from_ms(at_ms)).unwrap().as_ms();
        }
        prop_assert_eq!(stage.info().next_at.map(UnixTime::as_ms), Some(at_ms));
    }
}
