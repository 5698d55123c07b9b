//! Values and runs that several tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

use leafpress_format::Value;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A value that owns its bytes.
#[derive(Debug, Clone)]
pub enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Owned {
    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Real(real) => Value::Real(*real),
            Self::Text(text) => Value::Text(text),
            Self::Blob(blob) => Value::Blob(blob),
        }
    }
}

/// Runs `check` on `cases` values from `strategy`, shrinking what fails.
pub fn check_many<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&strategy, |value| {
        check(value);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
