//! Answers of the library as JSON, which Python's side reads.

/// A report, or another answer of the library, as the JSON that the command prints.
///
/// # Errors
/// None in practice: all of these types are plain data.
pub fn as_json(value: &impl serde::Serialize) -> leafpress::Result<String> {
    let impossible = |error| leafpress::ErrorKind::Bug(format!("an answer is no JSON: {error}"));
    serde_json::to_string(value).map_err(|error| impossible(error).into())
}
