//! The processes that a test has started, and what they say.
//!
//! Must never: leave a process behind, or wait for one without an end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::member::{self, END, IDS_EACH, READY};

/// A wait takes less than a second, and more only on a machine with much else to do.
pub const HANG: Duration = Duration::from_secs(120);

/// A line of a member, or the end of its lines.
struct Heard {
    member: i64,
    at: Instant,
    line: Option<String>,
}

/// A process; it is killed also if a check fails.
pub struct Member {
    pub child: Child,
    /// Dropped to tell it to end.
    input: Option<ChildStdin>,
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes that a test has started, and what they say.
pub struct Members {
    path: PathBuf,
    pub running: BTreeMap<i64, Member>,
    started: i64,
    said: (Sender<Heard>, Receiver<Heard>),
    ready: BTreeSet<i64>,
    silent: BTreeSet<i64>,
    /// Rows whose calls were answered.
    pub acknowledged: Vec<i64>,
    /// Answers since the last look, with their members.
    pub answers: Vec<(Instant, i64)>,
    pub errors: Vec<String>,
    /// Other lines.
    pub lines: Vec<String>,
}

impl Members {
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            running: BTreeMap::new(),
            started: 0,
            said: channel(),
            ready: BTreeSet::new(),
            silent: BTreeSet::new(),
            acknowledged: Vec::new(),
            answers: Vec::new(),
            errors: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Starts a process; its number.
    pub fn start(&mut self, part: &str) -> i64 {
        let number = self.started;
        self.started += 1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(member::FLAG)
            .arg(&self.path)
            .args([(number * IDS_EACH).to_string().as_str(), part])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let said = self.said.0.clone();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok).map(Some);
            for line in lines.chain([None]) {
                // The test may have ended.
                let _ = said.send(Heard { member: number, at: Instant::now(), line });
            }
        });
        self.running.insert(number, Member { child, input });
        number
    }

    /// Starts processes until so many run, and waits until all of them write.
    pub fn start_up_to(&mut self, count: usize) {
        while self.running.len() < count {
            self.start(member::HONEST);
        }
        self.listen_until("each process writes", |it| {
            it.running.keys().all(|number| it.ready.contains(number))
        });
    }

    /// Kills these, and hears what they have said before.
    pub fn kill(&mut self, numbers: &[i64]) {
        let mut killed: Vec<Member> =
            numbers.iter().map(|number| self.running.remove(number).unwrap()).collect();
        // All of them before the first is waited for.
        for member in &mut killed {
            member.child.kill().unwrap();
        }
        drop(killed);
        self.listen_until("the killed are silent", |it| {
            numbers.iter().all(|number| it.silent.contains(number))
        });
    }

    /// Tells all processes to end, and waits for that.
    pub fn end(&mut self) {
        for member in self.running.values_mut() {
            member.input = None;
        }
        self.listen_until("each process ends", |it| {
            it.running.keys().all(|number| it.silent.contains(number))
        });
        for (number, mut member) in std::mem::take(&mut self.running) {
            let status = member.child.wait().unwrap();
            assert!(status.success(), "process {number}: {status}");
        }
        assert_eq!(self.errors, [""; 0]);
    }

    /// Hears for a while.
    pub fn listen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.hear(until);
        }
    }

    /// Hears until this is so.
    pub fn listen_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        assert!(self.hears_within(HANG, is_so), "not within {HANG:?}: {what}; {:?}", self.errors);
    }

    /// Hears until this is so; false if it is not within this time.
    pub fn hears_within(&mut self, time: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let until = Instant::now() + time;
        while !is_so(self) {
            if Instant::now() >= until {
                return false;
            }
            self.hear(until);
        }
        true
    }

    /// Waits until each of the running processes has an answer to a call, other than those before,
    /// but for `one`.
    pub fn answered_all_but(&mut self, one: Option<i64>, within: Duration) -> bool {
        self.answers.clear();
        self.hears_within(within, |it| {
            let answered: BTreeSet<i64> = it.answers.iter().map(|(_, member)| *member).collect();
            it.running.keys().all(|number| Some(*number) == one || answered.contains(number))
        })
    }

    /// Says what a member has said of its sharing at its end.
    pub fn say_numbers(&self) {
        let numbers = self.lines.iter().find(|line| line.contains("syncs")).unwrap();
        println!("of one process: {numbers}");
    }

    fn hear(&mut self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        match self.said.1.recv_timeout(left) {
            Ok(Heard { member, at, line: Some(line) }) => self.heard(member, at, line),
            Ok(Heard { member, line: None, .. }) => drop(self.silent.insert(member)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("this end has a sender too"),
        }
    }

    fn heard(&mut self, member: i64, at: Instant, line: String) {
        if let Ok(id) = line.parse() {
            self.acknowledged.push(id);
            self.answers.push((at, member));
        } else if line == READY {
            self.ready.insert(member);
        } else if line.starts_with("error") {
            self.errors.push(format!("process {member}: {line}"));
        } else if line.starts_with(END) || line.starts_with(member::ALONE) {
            self.lines.push(line);
        } else {
            self.errors.push(format!("process {member} said {line:?}"));
        }
    }
}
