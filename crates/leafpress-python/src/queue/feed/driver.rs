//! The thread of a feed: it claims, extends and settles by futures of the queue, all at once.
//!
//! Must never: wait for anything but its own wake-up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use leafpress::queue::{Claim, ClaimOptions, Retry, Settings, Token, UnixTime};
use leafpress::writer::PendingCall;
use leafpress::{Error, ErrorKind, Result};

use super::state::{Outcome, Phase, Shared, State, Tokens};

/// Most jobs that it holds ready. More would only make others wait for them.
const AHEAD_MAX: f64 = 1_000.0;
/// It holds as many jobs ready as consumers finish in this time, or while two claims take.
const AHEAD_TIME_MIN: Duration = Duration::from_millis(20);
const AHEAD_TIME_MAX: Duration = Duration::from_secs(1);
/// Longest time for which jobs wait ready without a consumer: one that takes longer than the last
/// ones must not keep them from other processes.
const READY_MAX: Duration = Duration::from_millis(250);
/// Time after which a call that failed for the moment is made again.
const AGAIN_DELAY: Duration = Duration::from_millis(20);

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type Extensions = PendingCall<Vec<Result<UnixTime>>>;

struct Driver {
    shared: Arc<Shared>,
    lease: Duration,
    claiming: Option<Claiming>,
    acking: Option<(Tokens, PendingCall<Vec<Result<()>>>)>,
    settling: Vec<(Token, Outcome, Boxed<Became>)>,
    /// With the time at which it was asked for.
    extending: Option<(Tokens, Instant, Extensions)>,
    extend_at: Instant,
    /// A call without effect, and how many of these are to be answered before the end.
    barrier: Option<PendingCall<Settings>>,
    barriers: u32,
    /// The last claim found nothing, and was the last one unless a job is settled.
    has_found_none: bool,
    claim_not_before: Instant,
    settle_not_before: Instant,
    claimed_at: Instant,
    claim_time: Duration,
    /// Time at which jobs that are ready are given back.
    give_back_at: Option<Instant>,
}

struct Claiming {
    future: Boxed<Vec<Claim>>,
    began: Instant,
    /// True if the feed held no job when it began.
    held_none: bool,
}

/// Fate of a job that was settled by a call of its own.
enum Became {
    Done,
    Retried,
    Dead,
    Released,
    ReturnedUncounted,
}

/// Starts the thread of a feed.
///
/// # Errors
/// If the system gives none.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let for_thread = Arc::clone(shared);
    let started =
        thread::Builder::new().name("leafpress-feed".to_owned()).spawn(move || run(for_thread));
    let thread = started?;
    shared.lock().thread = Some(thread.thread().clone());
    // The thread may have looked for work before its name was known here.
    thread.thread().unpark();
    Ok(())
}

fn run(shared: Arc<Shared>) {
    let over = Over(Arc::clone(&shared));
    let lease = match shared.options.lease {
        Some(lease) => Ok(lease),
        None => loop {
            match shared.queue.settings() {
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted) => {}
                settings => break settings.map(|settings| settings.lease),
            }
        },
    };
    match lease {
        Ok(lease) => Driver::new(shared, lease).run(),
        Err(error) => shared.lock().failure = Some(error),
    }
    drop(over);
}

/// Tells all who wait that the thread has ended, also if it panics.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.move_on(Phase::Over);
        let mut wakers = state.wake_takers();
        wakers.append(&mut state.enders);
        let outcomes = std::mem::take(&mut state.to_settle);
        drop(state);
        self.0.settle_without_thread(outcomes);
        self.0.over.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Driver {
    fn new(shared: Arc<Shared>, lease: Duration) -> Self {
        let now = Instant::now();
        Self {
            shared,
            lease,
            claiming: None,
            acking: None,
            settling: Vec::new(),
            extending: None,
            extend_at: now + lease / 3,
            barrier: None,
            barriers: 0,
            has_found_none: false,
            claim_not_before: now,
            settle_not_before: now,
            claimed_at: now,
            claim_time: Duration::ZERO,
            give_back_at: None,
        }
    }

    fn run(mut self) {
        let parked = Arc::new(Parked::default());
        let waker = Waker::from(Arc::clone(&parked));
        loop {
            let shared = Arc::clone(&self.shared);
            let mut state = shared.lock();
            let now = Instant::now();
            self.begin(&mut state, now);
            let is_over =
                state.phase >= Phase::Closing && state.to_settle.is_empty() && !self.is_settling();
            drop(state);
            if is_over {
                return;
            }
            if !self.poll(&mut Context::from_waker(&waker)) {
                let until = self.next_look(now);
                parked.park(until.saturating_duration_since(Instant::now()));
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.shared.lock().phase >= Phase::Closing
    }

    fn is_settling(&self) -> bool {
        self.acking.is_some() || !self.settling.is_empty() || self.barriers > 0
    }

    /// Time of the next thing to do, if nothing happens. `now`: the time at which the last things
    /// were begun, so that a time which has come since is not passed over.
    fn next_look(&self, now: Instant) -> Instant {
        let extend_at = if self.extending.is_some() { now + self.lease } else { self.extend_at };
        let claim_at = Some(self.claim_not_before).filter(|at| *at > now);
        let settle_at = Some(self.settle_not_before).filter(|at| *at > now);
        [claim_at, settle_at, self.give_back_at].into_iter().flatten().fold(extend_at, Instant::min)
    }

    /// Begins what there is to do.
    fn begin(&mut self, state: &mut State, now: Instant) {
        self.give_back(state, now);
        if now >= self.settle_not_before {
            self.begin_to_settle(state);
        }
        if now >= self.extend_at && self.extending.is_none() {
            self.begin_to_extend(state, now);
        }
        if state.phase >= Phase::Stopped {
            // The writer answers calls in their order. When the first of two calls that change nothing is
            // answered, so is the cancelled claim, and a job that it brought has been given back by a
            // call before the second one. So that is committed when the second one is answered.
            if self.claiming.take().is_some() {
                self.barriers = 2;
            }
            if self.barriers > 0 && self.barrier.is_none() {
                self.barrier = Some(self.shared.queue.settings_async());
            }
        } else if self.claiming.is_none()
            && state.phase == Phase::Open
            && now >= self.claim_not_before
        {
            self.begin_to_claim(state, now);
        }
    }

    /// Gives back the jobs that have been ready for too long, but those that the options ask for.
    fn give_back(&mut self, state: &mut State, now: Instant) {
        let ahead = self.shared.options.ahead;
        let moved_at = state.moved_at.filter(|_| {
            state.phase == Phase::Open && state.takers.is_empty() && state.ready.len() > ahead
        });
        self.give_back_at = moved_at.map(|at| at + READY_MAX).filter(|at| *at > now);
        if moved_at.is_some() && self.give_back_at.is_none() {
            let waiting = state.ready.drain(ahead..);
            let given = waiting.map(|claim| (claim.token, Outcome::ReturnUncounted));
            state.to_settle.extend(given);
        }
    }

    fn begin_to_settle(&mut self, state: &mut State) {
        let mut acked = Vec::new();
        let mut kept = Vec::new();
        for (token, outcome) in state.to_settle.drain(..) {
            if let Outcome::Done(None) = outcome {
                if self.acking.is_none() {
                    acked.push(token);
                } else {
                    kept.push((token, outcome));
                }
            } else {
                let call = self.call_of(token, outcome.clone());
                self.settling.push((token, outcome, call));
            }
        }
        state.to_settle = kept;
        if !acked.is_empty() {
            let call = self.shared.queue.ack_many_async(&acked);
            self.acking = Some((acked, call));
        }
    }

    fn call_of(&self, token: Token, outcome: Outcome) -> Boxed<Became> {
        let queue = self.shared.queue.clone();
        Box::pin(async move {
            Ok(match outcome {
                Outcome::Done(None) => queue.ack_async(token).await.map(|()| Became::Done)?,
                Outcome::Done(Some(result)) => {
                    queue.ack_with_async(token, result).await.map(|()| Became::Done)?
                }
                Outcome::Retry(nack) => match queue.nack_async(token, nack).await? {
                    Retry::At { .. } => Became::Retried,
                    Retry::Dead => Became::Dead,
                },
                Outcome::Release => queue.release_async(token).await.map(|()| Became::Released)?,
                Outcome::ReturnUncounted => {
                    queue.release_async(token).await.map(|()| Became::ReturnedUncounted)?
                }
            })
        })
    }

    fn begin_to_extend(&mut self, state: &State, now: Instant) {
        self.extend_at = now + self.lease / 3;
        let is_old = |since: &Instant| now.saturating_duration_since(*since) >= self.lease / 6;
        let held = state.held.iter().filter(|(_, since)| is_old(since));
        let tokens: Tokens = held.map(|(token, _)| *token).collect();
        if !tokens.is_empty() {
            let call = self.shared.queue.extend_many_async(&tokens, self.lease);
            self.extending = Some((tokens, now, call));
        }
    }

    /// Begins a claim, if there is room for jobs.
    fn begin_to_claim(&mut self, state: &mut State, now: Instant) {
        let options = &self.shared.options;
        let held_none = state.held.is_empty() && state.to_settle.is_empty() && !self.is_settling();
        if self.has_found_none && state.finished == 0 && !held_none {
            return;
        }
        let ahead = self.ahead(state, now);
        state.refill_below = ahead.div_ceil(2);
        let mut room = (state.takers.len() + ahead).saturating_sub(state.ready.len());
        if state.takers.is_empty() && state.ready.len() > ahead / 2 {
            return;
        }
        if let Some(jobs_max) = options.jobs_max {
            room = room.min(usize::try_from(jobs_max - state.counts.claimed).unwrap_or(room));
        }
        if room == 0 {
            return;
        }
        let mut claim = ClaimOptions::new().jobs_max(room).lease(self.lease);
        if !options.until_empty {
            claim = claim.wait(Duration::MAX);
        }
        if let Some(worker) = &options.worker {
            claim = claim.worker(worker);
        }
        let future = Box::pin(self.shared.queue.claim_with_async(&claim));
        self.claiming = Some(Claiming { future, began: now, held_none });
        state.finished = 0;
        self.claimed_at = now;
    }

    /// Number of jobs to hold ready: those that consumers finish while the next ones are claimed.
    fn ahead(&self, state: &State, now: Instant) -> usize {
        let time = (self.claim_time * 2).clamp(AHEAD_TIME_MIN, AHEAD_TIME_MAX);
        let since = now.saturating_duration_since(self.claimed_at).max(Duration::from_micros(100));
        let jobs = state.finished as f64 * time.as_secs_f64() / since.as_secs_f64();
        self.shared.options.ahead.max(jobs.min(AHEAD_MAX) as usize)
    }

    /// Polls all that is under way; returns true if something has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut has_ended = false;
        if let Some(claiming) = &mut self.claiming
            && let Poll::Ready(found) = claiming.future.as_mut().poll(context)
        {
            let (began, held_none) = (claiming.began, claiming.held_none);
            self.claiming = None;
            self.claimed(found, began, held_none);
            has_ended = true;
        }
        if let Some((tokens, call)) = &mut self.acking
            && let Poll::Ready(answers) = Pin::new(call).poll(context)
        {
            let tokens = std::mem::take(tokens);
            self.acking = None;
            self.acked(tokens, answers);
            has_ended = true;
        }
        if let Some((tokens, asked_at, call)) = &mut self.extending
            && let Poll::Ready(answers) = Pin::new(call).poll(context)
        {
            let (tokens, asked_at) = (std::mem::take(tokens), *asked_at);
            self.extending = None;
            self.extended(&tokens, asked_at, answers);
            has_ended = true;
        }
        if let Some(call) = &mut self.barrier
            && Pin::new(call).poll(context).is_ready()
        {
            self.barrier = None;
            self.barriers = self.barriers.saturating_sub(1);
            has_ended = true;
        }
        let mut index = 0;
        while index < self.settling.len() {
            match self.settling[index].2.as_mut().poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(answer) => {
                    let (token, outcome, _) = self.settling.swap_remove(index);
                    self.settled(token, outcome, answer);
                    has_ended = true;
                }
            }
        }
        has_ended
    }

    fn claimed(&mut self, found: Result<Vec<Claim>>, began: Instant, held_none: bool) {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let claims = match found {
            Ok(claims) => claims,
            Err(error) if is_for_the_moment(&error) => {
                self.claim_not_before = now + AGAIN_DELAY;
                return;
            }
            Err(error) => {
                drop(state);
                self.fail(error);
                return;
            }
        };
        if claims.is_empty() && self.shared.options.until_empty {
            if held_none {
                state.move_on(Phase::Drained);
            }
            self.has_found_none = !held_none;
        } else {
            // A claim that waited for a job says nothing about the time that one takes.
            self.claim_time = now.saturating_duration_since(began).min(AHEAD_TIME_MAX / 10);
        }
        state.counts.claimed += claims.len() as u64;
        state.moved_at = Some(now);
        if self.shared.options.jobs_max.is_some_and(|max| state.counts.claimed >= max) {
            state.move_on(Phase::Drained);
        }
        for claim in claims {
            // The lease begins within the call, which may take long to commit.
            state.held.insert(claim.token, began);
            if state.phase >= Phase::Stopped {
                state.to_settle.push((claim.token, Outcome::Release));
            } else {
                state.ready.push_back(claim);
            }
        }
        let takers = if state.phase >= Phase::Drained {
            state.wake_takers()
        } else {
            let jobs = state.ready.len().min(state.takers.len());
            state.takers.drain(..jobs).map(|(_, waker)| waker).collect()
        };
        drop(state);
        takers.into_iter().for_each(Waker::wake);
    }

    fn acked(&mut self, tokens: Tokens, answers: Result<Vec<Result<()>>>) {
        match answers {
            Ok(answers) => {
                for (token, answer) in tokens.into_iter().zip(answers) {
                    let answer = answer.map(|()| Became::Done);
                    self.settled(token, Outcome::Done(None), answer);
                }
            }
            Err(error) if comes_again(&error, self.is_closing()) => {
                let again = tokens.into_iter().map(|token| (token, Outcome::Done(None)));
                self.shared.lock().to_settle.extend(again);
                self.settle_not_before = Instant::now() + AGAIN_DELAY;
            }
            Err(error) => self.fail(error),
        }
    }

    fn settled(&mut self, token: Token, outcome: Outcome, answer: Result<Became>) {
        let mut state = self.shared.lock();
        match answer {
            Err(error) if comes_again(&error, state.phase >= Phase::Closing) => {
                state.to_settle.push((token, outcome));
                self.settle_not_before = Instant::now() + AGAIN_DELAY;
                return;
            }
            Ok(Became::Done) => state.counts.done += 1,
            Ok(Became::Retried) => state.counts.retried += 1,
            Ok(Became::Dead) => state.counts.dead += 1,
            Ok(Became::Released) => state.counts.released += 1,
            Ok(Became::ReturnedUncounted) => state.counts.claimed -= 1,
            Err(error) if is_lost(&error) => state.counts.lease_lost += 1,
            Err(error) => {
                drop(state);
                self.fail(error);
                return;
            }
        }
        state.held.remove(&token);
        // It may come again, and may have pushed others.
        self.has_found_none = false;
    }

    fn extended(
        &mut self,
        tokens: &[Token],
        asked_at: Instant,
        answers: Result<Vec<Result<UnixTime>>>,
    ) {
        let answers = match answers {
            Ok(answers) => answers,
            // It is tried again after the next third of the lease.
            Err(error) if is_for_the_moment(&error) => return,
            Err(error) => return self.fail(error),
        };
        let mut state = self.shared.lock();
        for (token, answer) in tokens.iter().zip(answers) {
            if answer.is_err() {
                state.held.remove(token);
                let before = state.ready.len();
                state.ready.retain(|claim| claim.token != *token);
                state.counts.lease_lost += (before - state.ready.len()) as u64;
            } else if let Some(since) = state.held.get_mut(token) {
                *since = asked_at;
            }
        }
    }

    /// Ends the feed because of an error that will not go away.
    fn fail(&mut self, error: Error) {
        let mut state = self.shared.lock();
        if state.failure.is_none() {
            state.failure = Some(error);
        }
        drop(state);
        self.shared.stop();
    }
}

/// Returns true if a call has changed nothing, and may succeed when it is made again.
fn is_for_the_moment(error: &Error) -> bool {
    use ErrorKind::{Busy, Interrupted, TimedOut};
    matches!(error.kind(), Busy { .. } | Interrupted | TimedOut { .. })
}

/// Returns true if a call that settles jobs is made again after this error. At the end a call that
/// takes too long is not made for ever: its jobs come again after their leases.
fn comes_again(error: &Error, is_closing: bool) -> bool {
    is_for_the_moment(error) && (!is_closing || matches!(error.kind(), ErrorKind::Interrupted))
}

fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LeaseLost { .. } | ErrorKind::NoSuchClaim { .. })
}

/// Waker of the thread that made it.
struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Default for Parked {
    fn default() -> Self {
        Self { thread: thread::current(), is_woken: AtomicBool::new(false) }
    }
}

impl Parked {
    /// Sleeps until it is woken, or was since the last sleep, and so long at most.
    fn park(&self, limit: Duration) {
        if !self.is_woken.load(Ordering::SeqCst) {
            thread::park_timeout(limit);
        }
        self.is_woken.store(false, Ordering::SeqCst);
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}
