//! Prometheus' text format, version 0.0.4. It grows line by line.
//!
//! Times are in seconds, as the format's users expect; counters end in
//! `_total`; distributions are histograms, because those of several processes
//! can be added up, which quantiles cannot. Stands behind whatever has numbers
//! to show; what they are called and mean is said there.
//!
//! Must never: let a label's value, which may be a path or come from a user,
//! break out of its quotes.

use std::fmt::{Display, Write as _};

/// A bucket of a histogram as it is shown: its upper end, and how many values
/// are not larger.
pub(crate) type ShownBucket = (u64, u64);

/// A histogram to be shown; values are divided by `unit`.
pub(crate) struct Shown<B> {
    pub(crate) buckets: B,
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) unit: f64,
}

/// The text as it grows.
pub(crate) struct Exposition {
    text: String,
    /// Prefix of all names, without the `_` behind it.
    prefix: &'static str,
    /// The caller's labels, as they are written, without braces.
    labels: String,
}

impl Exposition {
    /// A text whose samples all carry the caller's `labels` (name, value).
    ///
    /// Values may be any text. In names, what the format does not allow becomes
    /// `_`; those in `own_labels`, which the samples have themselves, are
    /// renamed, as Prometheus itself does it; of two equal names the first counts.
    pub(crate) fn new(prefix: &'static str, own_labels: &[&str], labels: &[(&str, &str)]) -> Self {
        let mut written: Vec<(String, &str)> = Vec::new();
        for (name, value) in labels {
            let name = label_name(name, own_labels);
            if written.iter().all(|(other, _)| *other != name) {
                written.push((name, value));
            }
        }
        let labels: Vec<String> = written.iter().map(|(name, value)| label(name, value)).collect();
        Self { text: String::new(), prefix, labels: labels.join(",") }
    }

    /// Metrics of one number each, without labels of their own.
    pub(crate) fn plain(&mut self, kind: &str, metrics: &[(&str, &str, u64)]) {
        for (name, help, value) in metrics {
            self.describe(name, help, kind);
            self.sample(name, "", &[], value);
        }
    }

    /// Begins a metric; its samples must follow.
    pub(crate) fn describe(&mut self, name: &str, help: &str, kind: &str) {
        let prefix = self.prefix;
        let line = format!("# HELP {prefix}_{name} {help}\n# TYPE {prefix}_{name} {kind}\n");
        self.text.push_str(&line);
    }

    /// Adds one number, with labels of its own besides the caller's.
    pub(crate) fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        own: &[(&str, &str)],
        value: impl Display,
    ) {
        let mut labels = self.labels.clone();
        for (name, value) in own {
            if !labels.is_empty() {
                labels.push(',');
            }
            labels.push_str(&label(name, value));
        }
        if !labels.is_empty() {
            labels = format!("{{{labels}}}");
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{}_{name}{suffix}{labels} {value}", self.prefix);
    }

    /// A distribution, with labels of its own besides the caller's.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        own: &[(&str, &str)],
        shown: Shown<impl IntoIterator<Item = ShownBucket>>,
    ) {
        self.describe(name, help, "histogram");
        for (at_most, count) in shown.buckets {
            let bound = (at_most as f64 / shown.unit).to_string();
            self.sample(name, "_bucket", &[own, &[("le", &bound)]].concat(), count);
        }
        self.sample(name, "_bucket", &[own, &[("le", "+Inf")]].concat(), shown.count);
        self.sample(name, "_sum", own, shown.sum as f64 / shown.unit);
        self.sample(name, "_count", own, shown.count);
    }

    /// All of it.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

/// A name that the format allows: `[a-zA-Z_][a-zA-Z0-9_]*`. Those that begin
/// with `__` are Prometheus' own and would be dropped.
fn label_name(name: &str, own_labels: &[&str]) -> String {
    let allowed = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    let name: String = name.chars().map(allowed).collect();
    let is_sound = name.starts_with(|it: char| !it.is_ascii_digit()) && !name.starts_with("__");
    if is_sound && !own_labels.contains(&name.as_str()) {
        name
    } else {
        format!("exported_{}", name.trim_start_matches('_'))
    }
}
