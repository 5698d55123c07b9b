//! The result of one check of the doctor.
//!
//! Must never: say `ok` of what could not be seen; that is `unknown`.

use serde::Serialize;

/// Its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing to do.
    Ok,
    /// Something costs or endangers.
    Care,
    /// It cannot be seen from outside, or not by this user.
    Unknown,
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its number in `docs/doctor.md`.
    pub number: u8,
    /// Its name.
    pub name: &'static str,
    /// Its verdict.
    pub verdict: Verdict,
    /// The evidence.
    pub evidence: String,
    /// Its cost or risk, if something needs care.
    pub risk: Option<String>,
    /// The command that mends it, or what to do, if something needs care.
    pub mend: Option<String>,
}

/// A check's number and name, from which its findings are made.
#[derive(Debug, Clone, Copy)]
pub struct Check(pub u8, pub &'static str);

impl Check {
    fn finding(self, verdict: Verdict, evidence: impl Into<String>) -> Finding {
        let Self(number, name) = self;
        Finding { number, name, verdict, evidence: evidence.into(), risk: None, mend: None }
    }

    /// Nothing to do.
    pub fn ok(self, evidence: impl Into<String>) -> Finding {
        self.finding(Verdict::Ok, evidence)
    }

    /// It cannot be told.
    pub fn unknown(self, evidence: impl Into<String>) -> Finding {
        self.finding(Verdict::Unknown, evidence)
    }

    /// Something costs or endangers.
    pub fn care(
        self,
        evidence: impl Into<String>,
        risk: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        let finding = self.finding(Verdict::Care, evidence);
        Finding { risk: Some(risk.into()), mend: Some(mend.into()), ..finding }
    }
}
