//! The doctor's report as text: the verdict, what needs care, and the rest.
//!
//! Must never: judge; the checks do.

use super::finding::{Finding, Verdict};
use super::{INDENT, WIDTH, notes};
use crate::human;
use crate::output::{FAINT, STRONG, styled, verdict};

/// Columns before the text of a check, with its number.
const TEXT_INDENT: usize = 5;
const LABEL_WIDTH: usize = 6;

/// The doctor's report about a database, shown by this name.
pub fn of_doctor(database: &str, checks: &[Finding], said: &[String]) -> String {
    let with = |wanted: Verdict| checks.iter().filter(move |it| it.verdict == wanted);
    let care = with(Verdict::Care).count() as u64;
    let says = match care {
        0 => verdict(true, "nothing needs care"),
        care => verdict(false, &human::counted(care, "thing needs care", "things need care")),
    };
    let mut text = format!("{database}: {says}\n");
    for finding in with(Verdict::Care) {
        text += &needs_care(finding);
    }
    for (wanted, heading) in [(Verdict::Ok, "fine"), (Verdict::Unknown, "cannot be told")] {
        if with(wanted).next().is_some() {
            text += &format!("\n{INDENT}{}\n", styled(FAINT, heading));
        }
        for finding in with(wanted) {
            text += &in_short(finding);
        }
    }
    // Behind "note: ".
    let wrap = |note: &String| human::wrapped(&human::printable(note), WIDTH - 6, 6);
    text += &notes(&said.iter().map(wrap).collect::<Vec<_>>());
    text
}

fn needs_care(finding: &Finding) -> String {
    let number = human::right(&finding.number.to_string(), 2);
    let mut text = format!("\n{INDENT}{number} {}\n", styled(STRONG, finding.name));
    let lines = [
        ("seen", Some(&finding.evidence)),
        ("risk", finding.risk.as_ref()),
        ("fix", finding.fix.as_ref()),
    ];
    for (label, says) in lines {
        let Some(says) = says else { continue };
        let indent = TEXT_INDENT + LABEL_WIDTH;
        let says = human::printable(says);
        // A fix has commands to be copied, so it is never wrapped.
        let says =
            if label == "fix" { says } else { human::wrapped(&says, WIDTH - indent, indent) };
        let label = styled(FAINT, &human::left(label, LABEL_WIDTH));
        text += &format!("{}{label}{says}\n", " ".repeat(TEXT_INDENT));
    }
    text
}

fn in_short(finding: &Finding) -> String {
    let number = human::right(&finding.number.to_string(), 2);
    let says = human::printable(&format!("{}: {}", finding.name, finding.evidence));
    format!("{INDENT}{number} {}\n", human::wrapped(&says, WIDTH - TEXT_INDENT, TEXT_INDENT))
}
