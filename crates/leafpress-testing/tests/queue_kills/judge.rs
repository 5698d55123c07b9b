//! The judge of a round: compares the answers to every process with the rows that stock
//! SQLite reads.
//!
//! 1. The database is sound, and all its rules hold ([`broken_rules`]).
//! 2. The order of changes is one that may be ([`Replay`]).
//! 3. Every push that was answered is there: the job was pushed under that id,
//!    or another one holds its key. No job is there without a push, and no push twice.
//!    A follow-up of a job is there once, and exactly if a queue transaction has
//!    acknowledged that job; so is the row that some of them write.
//! 4. A row of the application's is there exactly if its job is.
//! 5. A claim is answered once, to one caller, with the job's own payload.
//! 6. A claim that was answered as settled was settled so, by that claim; a refused one
//!    was not; no job is acknowledged without a call that acknowledged it.
//! 7. In the end all jobs are done or dead.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use leafpress::queue::JobState;
use leafpress_testing::queue_audit::{Change, Replay, begin_trail, broken_rules, read_trail};
use rusqlite::Connection;

use super::journal::{self, How, Line};
use super::plan::{self, QUEUES};

/// Counts of a round, or of many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub pushes: u64,
    pub jobs: u64,
    pub claims: u64,
    /// Claims of a job that had been claimed before.
    pub redeliveries: u64,
    /// Of which the earlier claim's lease had ended: work that may be done twice.
    pub after_lost_leases: u64,
    pub acked: u64,
    pub dead: u64,
    /// Answers that a claim is not good any more.
    pub refused: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.pushes += other.pushes;
        self.jobs += other.jobs;
        self.claims += other.claims;
        self.redeliveries += other.redeliveries;
        self.after_lost_leases += other.after_lost_leases;
        self.acked += other.acked;
        self.dead += other.dead;
        self.refused += other.refused;
    }
}

/// Makes the tables beside the queues': rows of the application's, and the trail.
pub fn prepare(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let sql = "CREATE TABLE application (number INTEGER PRIMARY KEY, job INTEGER NOT NULL);
         CREATE TABLE moved (number INTEGER NOT NULL)";
    connection.execute_batch(sql).unwrap();
    begin_trail(&connection).unwrap();
}

/// The number of the job that a change is of.
fn number_of(change: &Change) -> u64 {
    change.correlation_id.as_ref().unwrap().parse().unwrap()
}

type Token = (i64, u32);

/// Answers to all processes together.
#[derive(Default)]
struct Answers {
    asked: HashSet<u64>,
    pushed: HashMap<u64, (i64, bool)>,
    undone: HashSet<u64>,
    claimed: HashMap<Token, u64>,
    asked_to_ack: HashSet<Token>,
    asked_to_move: HashMap<Token, u64>,
    settled: HashMap<Token, How>,
    refused: Vec<(How, Token)>,
}

impl Answers {
    fn of(lines: &[Line]) -> Self {
        let mut answers = Self::default();
        for line in lines {
            answers.take(line);
        }
        answers
    }

    fn take(&mut self, line: &Line) {
        match *line {
            Line::AsksToPush(number) => assert!(self.asked.insert(number), "{number} twice"),
            Line::Pushed { number, id, is_new } => {
                assert!(self.asked.contains(&number));
                assert_eq!(self.pushed.insert(number, (id, is_new)), None);
            }
            Line::Undone(number) => assert!(self.undone.insert(number)),
            Line::Claimed { token, number, attempt } => {
                assert!(1 <= attempt && attempt <= token.1, "{token:?} is attempt {attempt}");
                let before = self.claimed.insert(token, number);
                assert_eq!(before, None, "{token:?} was given to two callers");
            }
            Line::AsksToSettle(how, token) => {
                let number = self.claimed[&token];
                match how {
                    How::Ack => drop(self.asked_to_ack.insert(token)),
                    How::Move => drop(self.asked_to_move.insert(token, number)),
                    How::Nack | How::Fail | How::Release => {}
                }
            }
            Line::Settled(how, token) => {
                let before = self.settled.insert(token, how);
                assert_eq!(before, None, "{token:?} was settled twice");
            }
            Line::Refused(how, token, _) => self.refused.push((how, token)),
        }
    }
}

/// End of each claim, by the trail.
fn ends(trail: &[Change]) -> HashMap<Token, &Change> {
    let ends = trail.iter().filter(|change| {
        change.was == Some(JobState::Leased) && change.is != Some(JobState::Leased)
    });
    let mut by_token = HashMap::new();
    for end in ends {
        let before = by_token.insert((end.job, end.claims), end);
        assert!(before.is_none(), "a claim ended twice: {before:?}, {end:?}");
    }
    by_token
}

/// # Panics
/// If anything is not as it must be.
pub fn judge(path: &Path, journals: &[PathBuf]) -> Counts {
    let lines: Vec<_> = journals.iter().flat_map(|journal| journal::read(journal)).collect();
    judge_lines(&Connection::open(path).unwrap(), &lines)
}

fn judge_lines(stock: &Connection, lines: &[Line]) -> Counts {
    let check: String = stock.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert_eq!(broken_rules(stock).unwrap(), Vec::<String>::new());
    let answers = Answers::of(lines);
    let trail = read_trail(stock).unwrap();
    let mut replay = Replay::new(limits(stock));
    replay.run(&trail);
    let pushes: BTreeMap<u64, &Change> = trail
        .iter()
        .filter(|change| change.was.is_none())
        .map(|change| (number_of(change), change))
        .collect();
    assert_eq!(pushes.len() as u64, replay.pushed, "a job was pushed twice");
    judge_pushes(&answers, &pushes, &trail);
    judge_follow_ups(stock, &answers, &pushes, &replay);
    judge_rows(stock, &pushes);
    judge_claims(&answers, &trail, &replay);
    let jobs: BTreeSet<i64> = trail.iter().map(|change| change.job).collect();
    for job in jobs {
        let state = replay.state(job);
        assert!(state.is_none_or(JobState::has_ended), "{job} is {state:?} at the end");
    }
    Counts {
        pushes: answers.pushed.len() as u64,
        jobs: replay.pushed,
        claims: replay.claims,
        redeliveries: replay.claims_again,
        after_lost_leases: again_after_lost_leases(&trail),
        acked: replay.acked.len() as u64,
        dead: replay.dead,
        refused: answers.refused.len() as u64,
    }
}

fn limits(stock: &Connection) -> BTreeMap<i64, leafpress_testing::queue_audit::Limits> {
    let by_name = QUEUES.iter().zip(0..).map(|(name, queue)| {
        let sql = "SELECT id FROM leafpress_queue WHERE name = ?1";
        (stock.query_row(sql, [name], |row| row.get(0)).unwrap(), plan::limits(queue))
    });
    by_name.collect()
}

/// Rule 3.
fn judge_pushes(answers: &Answers, pushes: &BTreeMap<u64, &Change>, trail: &[Change]) {
    let keys: HashMap<i64, &Option<(String, i64)>> =
        trail.iter().map(|change| (change.job, &change.key)).collect();
    let lost: Vec<_> = answers
        .pushed
        .iter()
        .filter(|(number, (id, is_new))| {
            *is_new && pushes.get(number).is_none_or(|push| push.job != *id)
        })
        .collect();
    assert!(lost.is_empty(), "pushes were acknowledged and are lost: {lost:?}");
    for (number, (id, is_new)) in &answers.pushed {
        assert_eq!(pushes.contains_key(number), *is_new, "{number} was answered as {id}, {is_new}");
        let key = plan::key(*number);
        let holders = keys[id].as_ref().map(|(key, _)| key.clone());
        assert!(*is_new || key.is_some() && key == holders, "{number} was refused for {id}");
    }
    for number in pushes.keys().filter(|number| !plan::is_follow_up(**number)) {
        assert!(answers.asked.contains(number), "no process pushed {number}");
        assert!(!plan::is_undone(*number), "{number} was pushed in what was undone");
    }
    assert!(answers.undone.iter().all(|number| plan::is_undone(*number)));
}

/// Rule 3, of what queue transactions have pushed.
fn judge_follow_ups(
    stock: &Connection,
    answers: &Answers,
    pushes: &BTreeMap<u64, &Change>,
    replay: &Replay,
) {
    let moved: BTreeSet<u64> = replay
        .acked
        .iter()
        .filter_map(|token| answers.asked_to_move.get(token))
        .map(|number| plan::follow_up(*number))
        .collect();
    let there = pushes.keys().filter(|number| plan::is_follow_up(**number)).copied();
    let there: BTreeSet<u64> = there.collect();
    let wrong: Vec<_> = there.symmetric_difference(&moved).copied().map(plan::followed).collect();
    assert!(wrong.is_empty(), "moved in part: {wrong:?}");
    let mut statement = stock.prepare("SELECT number FROM moved ORDER BY number").unwrap();
    let rows = statement.query_map((), |row| row.get::<_, i64>(0)).unwrap();
    let rows: Vec<u64> = rows.map(|number| number.unwrap() as u64).collect();
    let moved = moved.into_iter().map(plan::followed);
    let expected: Vec<u64> = moved.filter(|number| plan::queue_of(*number) == 0).collect();
    assert!(rows == expected, "rows of queue transactions are not those of the jobs they moved");
}

/// Rule 4.
fn judge_rows(stock: &Connection, pushes: &BTreeMap<u64, &Change>) {
    let mut statement = stock.prepare("SELECT number, job FROM application").unwrap();
    let rows = statement.query_map((), |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)));
    let rows: BTreeMap<u64, i64> = rows.unwrap().map(Result::unwrap).collect();
    let expected: BTreeMap<u64, i64> = pushes
        .iter()
        .filter(|(number, _)| plan::has_row(**number))
        .map(|(number, push)| (*number, push.job))
        .collect();
    assert!(rows == expected, "rows and jobs are not the same");
}

/// Rules 5 and 6.
fn judge_claims(answers: &Answers, trail: &[Change], replay: &Replay) {
    let claims: HashMap<Token, u64> = trail
        .iter()
        .filter(|change| {
            change.is == Some(JobState::Leased) && change.was != Some(JobState::Leased)
        })
        .map(|change| ((change.job, change.claims), number_of(change)))
        .collect();
    for (token, number) in &answers.claimed {
        assert_eq!(claims.get(token), Some(number), "{token:?} was answered and never claimed");
    }
    let acked: HashSet<Token> = replay.acked.iter().copied().collect();
    assert_eq!(acked.len(), replay.acked.len());
    for token in &acked {
        let is_asked = answers.asked_to_ack.contains(token);
        let is_moved = answers.asked_to_move.contains_key(token);
        assert!(is_asked || is_moved, "no process acknowledged {token:?}");
        assert!(!plan::is_poison(claims[token]));
    }
    let ends = ends(trail);
    for (token, how) in &answers.settled {
        let end = ends.get(token).unwrap_or_else(|| panic!("{how:?} of {token:?} is lost"));
        let is_so = match how {
            How::Ack | How::Move => acked.contains(token),
            How::Nack => matches!(end.is, Some(JobState::Delayed | JobState::Dead)),
            How::Fail => end.is == Some(JobState::Dead),
            How::Release => end.is == Some(JobState::Ready),
        };
        assert!(is_so, "{how:?} of {token:?} was answered, and it ended so: {end:?}");
    }
    for (how, token) in &answers.refused {
        let is_ack = matches!(how, How::Ack | How::Move);
        assert!(!is_ack || !acked.contains(token), "{token:?} was refused and is done");
    }
}

/// Claims of jobs whose claim before ended with its lease: ready again, and not
/// given back.
fn again_after_lost_leases(trail: &[Change]) -> u64 {
    let mut releases = HashMap::new();
    let mut lost = HashSet::new();
    let mut again = 0;
    for change in trail {
        let before = releases.insert(change.job, change.releases).unwrap_or(0);
        match (change.was, change.is) {
            (Some(JobState::Leased), Some(JobState::Ready)) if before == change.releases => {
                lost.insert(change.job);
            }
            (Some(JobState::Ready), Some(JobState::Leased)) => {
                again += u64::from(lost.remove(&change.job));
            }
            _ => {}
        }
    }
    again
}

/// Forgeries: changes of a correct database and its trail that the judge must notice.
const FORGERIES: [&str; 6] = [
    "INSERT INTO moved SELECT max(number) FROM moved",
    "DELETE FROM application WHERE number = (SELECT max(number) FROM application)",
    "UPDATE application SET job = job + 1 WHERE number = (SELECT max(number) FROM application)",
    "DELETE FROM trail WHERE was IS NULL AND job = (SELECT max(job) FROM trail)",
    // Claimed once more after the end.
    "INSERT INTO trail (job, was, becomes, queue, claims, releases, priority, correlation_id)
         SELECT job, 0, 1, queue, claims + 1, releases, priority, correlation_id FROM trail
         WHERE was = 1 AND becomes IS NOT 0 ORDER BY number DESC LIMIT 1",
    // Pushed by no process.
    "INSERT INTO leafpress_job (queue, state, priority, changed_at_ms, pushed_at_ms, claims,
         releases, correlation_id) VALUES (1, 5, 0, 0, 0, 0, 0, '000000001')",
];

/// The judge itself, of what it has just agreed to: it must not agree to a forgery.
///
/// # Panics
/// If it does.
pub fn judge_the_judge(path: &Path, journals: &[PathBuf]) {
    let stock = Connection::open(path).unwrap();
    let lines: Vec<_> = journals.iter().flat_map(|journal| journal::read(journal)).collect();
    let agrees = |lines: &[Line]| {
        let judged = std::panic::AssertUnwindSafe(|| judge_lines(&stock, lines));
        std::panic::catch_unwind(judged).is_ok()
    };
    let tell = std::panic::take_hook();
    // The judge's own panics are wanted here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut passed = Vec::new();
    if !agrees(&lines) {
        passed.push("the judge has changed its mind".to_owned());
    }
    for sql in FORGERIES {
        stock.execute_batch(&format!("BEGIN; {sql}")).unwrap();
        if agrees(&lines) {
            passed.push(sql.to_owned());
        }
        stock.execute_batch("ROLLBACK").unwrap();
    }
    let is_claim = |line: &&Line| matches!(line, Line::Claimed { .. });
    let claimed_twice = lines.iter().find(is_claim).unwrap().clone();
    let lost = Line::Pushed { number: 1, id: i64::MAX, is_new: true };
    let is_ack = |line: &&Line| matches!(line, Line::Settled(How::Ack, _));
    let Some(Line::Settled(_, token)) = lines.iter().find(is_ack) else { panic!("no ack") };
    let refused = Line::Refused(How::Ack, *token, "Expired".to_owned());
    let forged = [vec![claimed_twice], vec![Line::AsksToPush(1), lost], vec![refused]];
    for more in forged {
        if agrees(&[lines.clone(), more.clone()].concat()) {
            passed.push(format!("{more:?}"));
        }
    }
    std::panic::set_hook(tell);
    assert!(passed.is_empty(), "the judge agrees to {passed:#?}");
}
