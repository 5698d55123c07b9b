//! Rows that share a key: the choice of those that stay.
//!
//! Rows are known by their sequence, and those with the same key form a group.
//! Only rows in groups matter: they are gone through in the order in which
//! they would have been inserted, each group remembering which row holds its
//! key. That gives exactly what SQLite would be left with, also where a row
//! meets several UNIQUE constraints.

use std::collections::HashMap;

/// Two rows with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The row that has the key.
    pub first: u64,
    /// The row that would have it too.
    pub second: u64,
    /// Place of the constraint among those that were broken.
    pub constraint: usize,
}

impl Conflict {
    /// The conflict that inserting row after row would meet first.
    pub fn first(groups: &[Vec<Vec<u64>>]) -> Option<Self> {
        let all = groups.iter().enumerate().flat_map(|(constraint, groups)| {
            let pair = move |group: &Vec<u64>| match group[..] {
                [first, second, ..] => Some(Self { first, second, constraint }),
                _ => None,
            };
            groups.iter().filter_map(pair)
        });
        all.min_by_key(|conflict| (conflict.second, conflict.constraint))
    }
}

/// A row that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedRow {
    pub sequence: u64,
    /// The row that has its key.
    pub holder: u64,
    /// Place of the constraint by which the two rows meet.
    pub constraint: usize,
}

/// Rows that are left out, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    rows: Vec<DroppedRow>,
}

impl Dropped {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn contains(&self, sequence: u64) -> bool {
        !self.rows.is_empty() && self.rows.binary_search_by_key(&sequence, |r| r.sequence).is_ok()
    }

    /// Number of rows before this one that are left out.
    pub fn before(&self, sequence: u64) -> u64 {
        self.rows.partition_point(|dropped| dropped.sequence < sequence) as u64
    }

    pub fn rows(&self) -> &[DroppedRow] {
        &self.rows
    }

    /// Rows whose key an earlier row has: those that `INSERT OR IGNORE` ignores.
    pub fn later_ones(groups: &[Vec<Vec<u64>>]) -> Self {
        let (members, constraints) = memberships(groups);
        let mut holders: Vec<Option<u64>> = vec![None; constraints.len()];
        let mut rows = Vec::new();
        for (sequence, groups) in members {
            let held = groups.iter().find_map(|&group| Some((group, holders[group]?)));
            if let Some((group, holder)) = held {
                rows.push(DroppedRow { sequence, holder, constraint: constraints[group] });
            } else {
                for group in groups {
                    holders[group] = Some(sequence);
                }
            }
        }
        Self { rows }
    }

    /// Rows whose key a later row takes: those that `INSERT OR REPLACE` deletes.
    pub fn earlier_ones(groups: &[Vec<Vec<u64>>]) -> Self {
        let (members, constraints) = memberships(groups);
        let mut holders: Vec<Option<u64>> = vec![None; constraints.len()];
        let mut held: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut rows = Vec::new();
        for (sequence, groups) in members {
            for &group in &groups {
                let Some(holder) = holders[group] else { continue };
                let constraint = constraints[group];
                rows.push(DroppedRow { sequence: holder, holder: sequence, constraint });
                for freed in held.remove(&holder).unwrap_or_default() {
                    holders[freed] = None;
                }
            }
            for &group in &groups {
                holders[group] = Some(sequence);
            }
            held.insert(sequence, groups);
        }
        rows.sort_unstable_by_key(|row| row.sequence);
        Self { rows }
    }
}

/// A row and the numbers of its groups.
type Membership = (u64, Vec<usize>);

/// The rows in ascending order, each with its groups; and each group's constraint.
fn memberships(constraints: &[Vec<Vec<u64>>]) -> (Vec<Membership>, Vec<usize>) {
    let groups = constraints.iter().enumerate();
    let groups =
        groups.flat_map(|(constraint, groups)| groups.iter().map(move |g| (constraint, g)));
    let groups: Vec<(usize, &Vec<u64>)> = groups.collect();
    let mut pairs: Vec<(u64, usize)> = groups
        .iter()
        .enumerate()
        .flat_map(|(number, (_, group))| group.iter().map(move |&sequence| (sequence, number)))
        .collect();
    pairs.sort_unstable();
    let rows = pairs.chunk_by(|left, right| left.0 == right.0);
    let rows = rows.map(|row| (row[0].0, row.iter().map(|pair| pair.1).collect())).collect();
    (rows, groups.into_iter().map(|(constraint, _)| constraint).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;

    /// The rows of two unique columns that SQLite keeps.
    fn kept_by_sqlite(rows: &[(u8, u8)], or: &str) -> Vec<u64> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t(seq, a UNIQUE, b UNIQUE)").unwrap();
        for (sequence, (a, b)) in rows.iter().enumerate() {
            let sql = format!("INSERT OR {or} INTO t VALUES (?, ?, ?)");
            connection.execute(&sql, (sequence as i64, a, b)).unwrap();
        }
        let mut statement = connection.prepare("SELECT seq FROM t ORDER BY seq").unwrap();
        let rows = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        rows.map(|sequence| sequence.unwrap() as u64).collect()
    }

    fn groups_by(rows: &[(u8, u8)], key: impl Fn(&(u8, u8)) -> u8) -> Vec<Vec<u64>> {
        let mut groups: HashMap<u8, Vec<u64>> = HashMap::new();
        for (sequence, row) in (0..).zip(rows) {
            groups.entry(key(row)).or_default().push(sequence);
        }
        groups.into_values().filter(|group| group.len() > 1).collect()
    }

    proptest! {
        #[test]
        fn the_rows_that_stay_are_those_that_sqlite_keeps(
            rows in prop::collection::vec((0_u8..12, 0_u8..12), 0..40),
        ) {
            let groups = [groups_by(&rows, |row| row.0), groups_by(&rows, |row| row.1)];
            let kept = |dropped: Dropped| -> Vec<u64> {
                (0..rows.len() as u64).filter(|&row| !dropped.contains(row)).collect()
            };
            prop_assert_eq!(kept(Dropped::later_ones(&groups)), kept_by_sqlite(&rows, "IGNORE"));
            prop_assert_eq!(
                kept(Dropped::earlier_ones(&groups)),
                kept_by_sqlite(&rows, "REPLACE")
            );
        }
    }

    #[test]
    fn the_first_conflict_is_the_one_that_inserting_meets_first() {
        let groups = [vec![vec![3, 9], vec![1, 4, 5]], vec![vec![0, 4]]];
        let conflict = Conflict::first(&groups);
        assert_eq!(conflict, Some(Conflict { first: 1, second: 4, constraint: 0 }));
        assert_eq!(Conflict::first(&[]), None);
    }

    #[test]
    fn rows_before_are_counted() {
        let dropped = Dropped::later_ones(&[vec![vec![1, 4, 7]]]);
        let sequences: Vec<_> = dropped.rows().iter().map(|row| row.sequence).collect();
        assert_eq!(sequences, [4, 7]);
        assert_eq!([0, 4, 5, 9].map(|at| dropped.before(at)), [0, 0, 1, 2]);
    }
}
