//! The statements of one request: those of its calls, each with its owner, and those that record counts of rows.
//!
//! Must never: let a statement stand between one that is counted and its record.

use serde_json::json;

use crate::runs::{Plain, Plan, Tables};
use crate::statement::Prepared;

/// Origin of a statement.
#[derive(Clone, Copy)]
pub enum Owner {
    /// The rows of groups.
    Leafpress,
    /// One call, by its place in `members`; its counts of rows may be of use.
    Call { at: usize, is_counted: bool },
    /// Several calls, whose counts are told from those of the statement.
    Run,
}

impl Owner {
    /// The call, if it is one.
    pub fn call(&self) -> Option<usize> {
        if let Self::Call { at, .. } = self { Some(*at) } else { None }
    }

    /// Returns true if the counts of the statement are of use.
    pub fn is_counted(&self) -> bool {
        matches!(self, Self::Run | Self::Call { is_counted: true, .. })
    }
}

/// Consecutive calls of one INSERT.
struct OpenRun {
    plain: Plain,
    /// Their places in `members`.
    calls: Vec<usize>,
    statements: Vec<String>,
}

/// The statements of the calls of a request, with those that record counts.
pub struct Records<'t> {
    /// Adds the counts of the statement before it to the row of the group, if there is one.
    record: Option<String>,
    tables: &'t Tables,
    run: Option<OpenRun>,
    made: Made,
}

/// Statements with their owners, and the plan of their counts.
#[derive(Default)]
pub struct Made {
    pub statements: Vec<String>,
    pub owners: Vec<Owner>,
    pub plan: Plan,
}

impl<'t> Records<'t> {
    pub fn new(record: Option<String>, tables: &'t Tables) -> Self {
        Self { record, tables, run: None, made: Made::default() }
    }

    /// Adds a statement of the call at `at`: to the run that is open, or to a new one, if it is `plain`.
    pub fn add(&mut self, at: usize, prepared: &Prepared, is_counted: bool, plain: Option<&Plain>) {
        let Some(plain) = plain else {
            self.end_run();
            self.push(prepared.text.clone(), Owner::Call { at, is_counted });
            if is_counted {
                self.made.plan.add_each();
                self.record();
            }
            return;
        };
        let fits = |run: &OpenRun| run.plain == *plain && run.calls.len() < plain.rows_max();
        if !self.run.as_ref().is_some_and(fits) {
            self.end_run();
        }
        let open = || OpenRun { plain: plain.clone(), calls: Vec::new(), statements: Vec::new() };
        let run = self.run.get_or_insert_with(open);
        run.calls.push(at);
        run.statements.push(prepared.text.clone());
    }

    /// All of it, when there are no more calls.
    pub fn ended(mut self) -> Made {
        self.end_run();
        self.made
    }

    fn end_run(&mut self) {
        let Some(OpenRun { plain, calls, mut statements }) = self.run.take() else { return };
        if let ([at], Some(statement)) = (&*calls, statements.pop_if(|_| calls.len() == 1)) {
            self.push(statement, Owner::Call { at: *at, is_counted: true });
            self.made.plan.add_each();
        } else {
            let text = self.made.plan.add_run(&plain, statements, self.tables);
            self.push(text, Owner::Run);
        }
        self.record();
    }

    fn record(&mut self) {
        if let Some(record) = &self.record {
            self.push(json!([record]).to_string(), Owner::Leafpress);
        }
    }

    fn push(&mut self, statement: String, owner: Owner) {
        self.made.statements.push(statement);
        self.made.owners.push(owner);
    }
}
