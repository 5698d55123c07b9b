//! Bytes to fields.
