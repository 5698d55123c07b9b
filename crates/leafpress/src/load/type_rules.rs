//! The rule for the fields of a column that is declared by hand.
//!
//! Stands between the table's shape, which SQLite tells, and the rules of a
//! load's rows.

use leafpress_format::Affinity;

use super::fields::FieldRule;
use crate::schema::ColumnType;
use crate::schema::shape::ShapeColumn;

impl FieldRule {
    /// How fields are stored in a column that is declared so, in a table that
    /// is STRICT or not.
    ///
    /// A field that an INTEGER or REAL column would store as something else
    /// makes a bad row, also where SQLite would store it: the declaration is
    /// the caller's word. NUMERIC columns take anything.
    pub fn for_column(column: &ShapeColumn, strict: bool) -> Self {
        if strict && column.declared_type.eq_ignore_ascii_case("ANY") {
            return Self::Any;
        }
        match column.affinity {
            Affinity::Integer => Self::Given(ColumnType::Integer),
            Affinity::Real => Self::Given(ColumnType::Real),
            Affinity::Text => Self::Given(ColumnType::Text),
            Affinity::Numeric => Self::Numeric,
            Affinity::Blob if column.declared_type.is_empty() => Self::Any,
            Affinity::Blob => Self::Given(ColumnType::Blob),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_follow_the_affinity() {
        let rule = |declared_type: &str, strict| {
            let column = ShapeColumn {
                name: "x".to_owned(),
                declared_type: declared_type.to_owned(),
                affinity: Affinity::of_declared_type(declared_type),
                not_null: false,
                default: None,
                generated: false,
            };
            FieldRule::for_column(&column, strict)
        };
        assert_eq!(rule("BIGINT", false), FieldRule::Given(ColumnType::Integer));
        assert_eq!(rule("double precision", false), FieldRule::Given(ColumnType::Real));
        assert_eq!(rule("VARCHAR(20)", false), FieldRule::Given(ColumnType::Text));
        assert_eq!(rule("DECIMAL(10,2)", false), FieldRule::Numeric);
        assert_eq!(rule("", false), FieldRule::Any);
        assert_eq!(rule("BLOB", false), FieldRule::Given(ColumnType::Blob));
        assert_eq!(rule("any", true), FieldRule::Any);
        assert_eq!(rule("ANY", false), FieldRule::Numeric);
        assert_eq!(rule("INT", true), FieldRule::Given(ColumnType::Integer));
    }
}
