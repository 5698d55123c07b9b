//! The queue that a pool works off: of this machine, or elsewhere.
//!
//! Must never: know a handler.

use std::sync::Arc;
use std::time::Duration;

use super::Outcome;
use crate::error::Result;
use crate::queue::claim::Found;
use crate::queue::elsewhere::QueueElsewhere;
use crate::queue::{ClaimOptions, Nack, Queue, Retry, Token};
use crate::times::UnixTime;

/// A queue.
#[derive(Debug, Clone)]
pub(super) enum WorkerQueue {
    Local(Queue),
    Elsewhere(Arc<dyn QueueElsewhere>),
}

/// Fate of a job that was settled.
pub(super) enum Settled {
    Done,
    Retried,
    Dead,
    Released,
}

impl WorkerQueue {
    /// The lease of its settings.
    pub(super) fn lease(&self) -> Result<Duration> {
        match self {
            Self::Local(queue) => Ok(queue.settings()?.lease),
            Self::Elsewhere(queue) => queue.lease(),
        }
    }

    /// Claims jobs, without waiting.
    pub(super) fn look(&self, options: &ClaimOptions) -> Result<Found> {
        match self {
            Self::Local(queue) => queue.look(options),
            Self::Elsewhere(queue) => {
                Ok(Found { claims: queue.claim_now(options)?, ..Found::default() })
            }
        }
    }

    /// Extends leases.
    pub(super) fn extend_many(
        &self,
        tokens: &[Token],
        lease: Duration,
    ) -> Result<Vec<Result<UnixTime>>> {
        match self {
            Self::Local(queue) => queue.extend_many(tokens, lease),
            Self::Elsewhere(queue) => queue.extend_many(tokens, lease),
        }
    }

    /// Settles a job as its handler says.
    pub(super) fn settle(&self, token: Token, outcome: &Outcome) -> Result<Settled> {
        match outcome {
            Outcome::Done => match self {
                Self::Local(queue) => queue.ack(token),
                Self::Elsewhere(queue) => queue.ack(token, None),
            }
            .map(|()| Settled::Done),
            Outcome::DoneWith(result) => match self {
                Self::Local(queue) => queue.ack_with(token, result.clone()),
                Self::Elsewhere(queue) => queue.ack(token, Some(result.clone())),
            }
            .map(|()| Settled::Done),
            Outcome::Retry { error, delay } => {
                let nack = Nack { error: Some(error.clone()), delay: *delay };
                let retry = match self {
                    Self::Local(queue) => queue.nack(token, nack),
                    Self::Elsewhere(queue) => queue.nack(token, nack),
                };
                Ok(match retry? {
                    Retry::At { .. } => Settled::Retried,
                    Retry::Dead => Settled::Dead,
                })
            }
            Outcome::Dead { reason } => match self {
                Self::Local(queue) => queue.fail(token, reason),
                Self::Elsewhere(queue) => queue.fail(token, reason),
            }
            .map(|()| Settled::Dead),
            Outcome::Release => match self {
                Self::Local(queue) => queue.release(token),
                Self::Elsewhere(queue) => queue.release(token),
            }
            .map(|()| Settled::Released),
        }
    }
}
