//! Values that stand in the SQL, as JSON or rqlite would change them on their way.
//!
//! | value | the reason |
//! |---|---|
//! | BLOB | rqlite before 8.31 takes none as a parameter |
//! | text that looks like a BLOB in SQL, such as `x'00ff'` | rqlite 8.31 and later make a BLOB of it |
//! | text that is not UTF-8, infinite number | JSON has none |
//!
//! Must never: write a literal of another value or type.

use leafpress::hex_digits;
use leafpress::rusqlite::types::ValueRef;

/// Appends the value to the SQL if it has to stand there. Returns true if it does.
pub fn push_literal(value: ValueRef<'_>, sql: &mut String) -> bool {
    match value {
        ValueRef::Blob(bytes) => push_hex(bytes, sql),
        ValueRef::Real(number) if number.is_infinite() => {
            sql.push_str(if number > 0.0 { "9e999" } else { "-9e999" });
        }
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if is_like_blob(text) => {
                sql.push('\'');
                sql.push_str(&text.replace('\'', "''"));
                sql.push('\'');
            }
            Ok(_) => return false,
            Err(_) => {
                sql.push_str("CAST(");
                push_hex(bytes, sql);
                sql.push_str(" AS TEXT)");
            }
        },
        _ => return false,
    }
    true
}

fn push_hex(bytes: &[u8], sql: &mut String) {
    sql.push_str("x'");
    sql.extend(hex_digits(bytes));
    sql.push('\'');
}

/// Returns true for `x'00ff'`, also with spaces around it.
fn is_like_blob(text: &str) -> bool {
    let digits = text.trim().strip_prefix(['x', 'X']);
    let digits = digits.and_then(|it| it.strip_prefix('\'')?.strip_suffix('\''));
    digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafpress::rusqlite::Connection;
    use leafpress::rusqlite::types::Value;

    #[test]
    fn a_literal_is_the_value() {
        let database = Connection::open_in_memory().unwrap();
        let literals = [
            Value::Blob(Vec::new()),
            Value::Blob(vec![0, 255, b'\'']),
            Value::Real(f64::INFINITY),
            Value::Real(f64::NEG_INFINITY),
            Value::Text("x''".to_owned()),
            Value::Text(" X'00fF'\n".to_owned()),
            Value::Text("\u{a0}x'0'\u{2003}".to_owned()),
        ];
        for value in literals {
            let mut sql = "SELECT ".to_owned();
            assert!(push_literal((&value).into(), &mut sql), "{value:?}");
            let found: Value = database.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(found, value);
        }
        let mut sql = "SELECT hex(".to_owned();
        assert!(push_literal(ValueRef::Text(b"a\xff\0"), &mut sql));
        let found: String = database.query_row(&(sql + ")"), [], |row| row.get(0)).unwrap();
        assert_eq!(found, "61FF00");
    }

    #[test]
    fn other_values_travel_as_parameters() {
        for value in [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(-0.5),
            Value::Text("x'0g'".to_owned()),
            Value::Text("x".to_owned()),
            Value::Text("'x''".to_owned()),
        ] {
            let mut sql = String::new();
            assert!(!push_literal((&value).into(), &mut sql) && sql.is_empty(), "{value:?}");
        }
    }
}
