//! The calls of a process and their answers, in a file of its own.
//!
//! A line is written before a call and one after its answer, each by one
//! appending write; the system keeps what a killed process wrote. A kill in the
//! middle of a write leaves a last line without an end, which counts for nothing.
//!
//! | line | |
//! |---|---|
//! | `P number` | the job of this number is about to be pushed |
//! | `p number id is_new` | the answer |
//! | `u number` | its push was undone, and the caller told so |
//! | `C job claim number attempt` | a claim was answered |
//! | `S how job claim` | a claim is about to be settled |
//! | `s how job claim` | the answer: done |
//! | `x how job claim why` | the answer: refused |

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use leafpress::queue::{Claim, Pushed, Token};

/// End of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Ack,
    Nack,
    Fail,
    Release,
    /// Acknowledged by a queue transaction, which pushes what follows it.
    Move,
}

impl How {
    fn letter(self) -> char {
        match self {
            Self::Ack => 'a',
            Self::Nack => 'n',
            Self::Fail => 'f',
            Self::Release => 'r',
            Self::Move => 'm',
        }
    }

    fn of(letter: &str) -> Self {
        [Self::Ack, Self::Nack, Self::Fail, Self::Release, Self::Move]
            .into_iter()
            .find(|how| letter.chars().eq([how.letter()]))
            .unwrap_or_else(|| panic!("{letter:?} is no way to settle"))
    }
}

/// The file that a process writes.
pub struct Journal(File);

impl Journal {
    /// Makes it, or goes on with it.
    pub fn open(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    fn write(&self, lines: &str) {
        let written = (&self.0).write(lines.as_bytes()).unwrap();
        assert_eq!(written, lines.len(), "a line must be one write");
    }

    pub fn asks_to_push(&self, numbers: &[u64]) {
        self.lines(numbers, |number| format!("P {number}"));
    }

    pub fn pushed(&self, answers: &[(u64, Pushed)]) {
        self.lines(answers, |(number, Pushed { id, is_new, .. })| {
            format!("p {number} {id} {}", u8::from(*is_new))
        });
    }

    pub fn undone(&self, number: u64) {
        self.write(&format!("u {number}\n"));
    }

    pub fn claimed(&self, claims: &[Claim]) {
        self.lines(claims, |claim| {
            let Token { job, claim: number } = claim.token;
            format!("C {job} {number} {} {}", number_in(claim.payload.as_bytes()), claim.attempt)
        });
    }

    pub fn asks_to_settle(&self, how: How, tokens: &[Token]) {
        self.lines(tokens, |token| format!("S {} {} {}", how.letter(), token.job, token.claim));
    }

    pub fn settled(&self, how: How, token: Token) {
        self.write(&format!("s {} {} {}\n", how.letter(), token.job, token.claim));
    }

    /// `why` is one word.
    pub fn refused(&self, how: How, token: Token, why: &str) {
        self.write(&format!("x {} {} {} {why}\n", how.letter(), token.job, token.claim));
    }

    fn lines<T>(&self, items: &[T], line: impl Fn(&T) -> String) {
        let mut text = String::new();
        for item in items {
            let _ = writeln!(text, "{}", line(item));
        }
        self.write(&text);
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    AsksToPush(u64),
    Pushed { number: u64, id: i64, is_new: bool },
    Undone(u64),
    Claimed { token: (i64, u32), number: u64, attempt: u32 },
    AsksToSettle(How, (i64, u32)),
    Settled(How, (i64, u32)),
    Refused(How, (i64, u32), String),
}

/// All whole lines of a file; none if it was never made.
pub fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(parse).collect()
}

fn parse(line: &str) -> Line {
    fn number<T: std::str::FromStr>(words: &[&str], place: usize) -> T {
        words[place].parse().unwrap_or_else(|_| panic!("{words:?} has no number at {place}"))
    }
    let words: Vec<_> = line.split(' ').collect();
    let token = |place| (number(&words, place), number(&words, place + 1));
    match words[0] {
        "P" => Line::AsksToPush(number(&words, 1)),
        "p" => Line::Pushed {
            number: number(&words, 1),
            id: number(&words, 2),
            is_new: words[3] == "1",
        },
        "u" => Line::Undone(number(&words, 1)),
        "C" => {
            Line::Claimed { token: token(1), number: number(&words, 3), attempt: number(&words, 4) }
        }
        "S" => Line::AsksToSettle(How::of(words[1]), token(2)),
        "s" => Line::Settled(How::of(words[1]), token(2)),
        "x" => Line::Refused(How::of(words[1]), token(2), words[4].to_owned()),
        _ => panic!("{line:?} is no line of a journal"),
    }
}

/// The number that a payload begins with.
pub fn number_in(payload: &[u8]) -> u64 {
    let digits: Vec<u8> =
        payload.iter().copied().skip_while(|byte| !byte.is_ascii_digit()).take(DIGITS).collect();
    String::from_utf8(digits).unwrap().parse().unwrap()
}

/// The digits of the number in a payload.
pub const DIGITS: usize = 9;
