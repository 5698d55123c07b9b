//! Passes what the user asks of the worker on to the threads of the jobs.
//!
//! Stands between the thread of the signals and the threads of the jobs. Must
//! never: signal a program itself; only the thread that waits for it knows
//! whether its number is still its own.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leafpress::vfs::sync::lock;

/// Event that the thread of a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program has ended, and its exit status is still to be read.
    Exited,
    /// The lease is lost: another worker may have the job by now.
    LeaseLost,
    /// The worker takes no more jobs; this one may go on until then.
    GraceEnds(Instant),
    /// The program must end now.
    Kill,
}

/// State that all jobs of a worker share.
#[derive(Clone, Default)]
pub struct Control {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Events so far, which programs that start later are told as well.
    asked: Vec<Event>,
    last_id: u64,
    listeners: BTreeMap<u64, Sender<Event>>,
}

impl Control {
    /// Gives the programs that run some more time.
    pub fn end_after(&self, grace: Duration) {
        // A grace that no clock can hold has no end.
        if let Some(end) = Instant::now().checked_add(grace) {
            self.tell(Event::GraceEnds(end));
        }
    }

    /// Kills the programs that run.
    pub fn kill(&self) {
        self.tell(Event::Kill);
    }

    /// Tells the listener all that was and will be asked, until the answer is dropped.
    pub fn listen(&self, listener: Sender<Event>) -> Listening {
        let mut state = self.lock();
        for event in &state.asked {
            // The receiver is there: the caller has just made the channel.
            let _ = listener.send(*event);
        }
        state.last_id += 1;
        let id = state.last_id;
        state.listeners.insert(id, listener);
        drop(state);
        Listening { control: self.clone(), id }
    }

    fn tell(&self, event: Event) {
        let mut state = self.lock();
        state.asked.push(event);
        for listener in state.listeners.values() {
            // A listener that has gone needs no event.
            let _ = listener.send(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Registration of a job's listener, which ends with the job.
pub struct Listening {
    control: Control,
    id: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.control.lock().listeners.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_that_start_late_hear_what_was_asked_before() {
        let control = Control::default();
        let (sender, early) = channel();
        let listening = control.listen(sender);
        control.end_after(Duration::ZERO);
        control.end_after(Duration::MAX);
        drop(listening);
        control.kill();
        let heard: Vec<Event> = early.try_iter().collect();
        assert!(matches!(heard[..], [Event::GraceEnds(_)]), "{heard:?}");

        let (sender, late) = channel();
        let _listening = control.listen(sender);
        let heard: Vec<Event> = late.try_iter().collect();
        assert!(matches!(heard[..], [Event::GraceEnds(_), Event::Kill]), "{heard:?}");
    }
}
