//! The thread that writes checkpoints in the background: one for all filters of a process, started
//! when it is first needed and ended with the last of them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use super::{Engine, lock};
use crate::storage::{Medium, Owner, unpoisoned};

/// Something that can be checkpointed.
trait Work: Send + Sync {
    /// Writes checkpoints for as long as one is called for.
    fn work(&self);
}

impl<M: Medium + 'static> Work for Engine<M> {
    fn work(&self) {
        // What goes wrong poisons the handle, or comes up again when it is needed: the next call that
        // writes tells.
        while self.wants_checkpoint() && self.checkpoint_in_background().is_ok() {}
        if !self.is_dead() && self.wants_segment() {
            let _ = self.prepare_segment_ahead(Self::nears_rollover);
        }
    }
}

impl<M: Medium> Engine<M> {
    /// Whether a boundary was drawn whose checkpoint is not written, or should be drawn.
    fn wants_checkpoint(&self) -> bool {
        if self.is_dead() || self.stripes.are_locked() {
            return false;
        }
        lock(&self.tables).frozen.is_some() || self.journal.is_due()
    }

    /// Whether the thread may work for this writer from now on.
    pub(crate) fn set_background(&self, on: bool) {
        self.journal.set_silent(!on);
    }

    fn checkpoint_in_background(&self) -> crate::error::Result<()> {
        self.finish_frozen(&mut lock(&self.tables))?;
        if self.journal.is_due() { self.checkpoint() } else { Ok(()) }
    }
}

/// What the thread has to do.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    works: VecDeque<Weak<dyn Work>>,
    ended: bool,
}

/// The background of this process.
struct Shared {
    /// The process that it belongs to: a child that was forked has no such thread.
    owner: Owner,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
    /// Filters that use it.
    users: usize,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// A filter's part in the background.
pub(crate) struct Background {
    queue: Arc<Queue>,
    owner: Owner,
}

impl Background {
    /// Lets checkpoints of a writer be written in the background from now on.
    pub(crate) fn serve<M: Medium + 'static>(engine: &Arc<Engine<M>>) -> Self {
        let mut shared = unpoisoned(&SHARED);
        // That of the process that this one was forked from has no thread here.
        let shared = match shared.as_mut() {
            Some(shared) if !shared.owner.is_another_process() => shared,
            _ => shared.insert(Shared {
                owner: Owner::this_process(),
                queue: Arc::default(),
                thread: None,
                users: 0,
            }),
        };
        shared.users += 1;
        let (queue, owner) = (Arc::clone(&shared.queue), shared.owner);
        let (work, bell_queue) = (Arc::downgrade(engine), Arc::clone(&queue));
        engine.journal.set_bell(Box::new(move || {
            let work: Weak<dyn Work> = Weak::clone(&work) as Weak<dyn Work>;
            ring(&bell_queue, work);
        }));
        Background { queue, owner }
    }
}

/// Puts work into the queue, and starts the thread if there is none.
fn ring(queue: &Arc<Queue>, work: Weak<dyn Work>) {
    unpoisoned(&queue.state).works.push_back(work);
    queue.changed.notify_one();
    let mut shared = unpoisoned(&SHARED);
    let Some(shared) = shared.as_mut().filter(|it| Arc::ptr_eq(&it.queue, queue)) else { return };
    if shared.thread.is_none() {
        let queue = Arc::clone(queue);
        let thread = std::thread::Builder::new().name("bloomfile".into());
        // Where the system has no thread to give, syncs write the checkpoints that they need.
        shared.thread = thread.spawn(move || run(&queue)).ok();
    }
}

fn run(queue: &Queue) {
    loop {
        let mut state = unpoisoned(&queue.state);
        let work = loop {
            if let Some(work) = state.works.pop_front() {
                break work;
            }
            if state.ended {
                return;
            }
            state = queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        if let Some(work) = work.upgrade() {
            work.work();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.owner.is_another_process() {
            return;
        }
        let mut shared = unpoisoned(&SHARED);
        let Some(background) = shared.as_mut().filter(|it| Arc::ptr_eq(&it.queue, &self.queue))
        else {
            return;
        };
        background.users -= 1;
        if background.users > 0 {
            return;
        }
        unpoisoned(&self.queue.state).ended = true;
        self.queue.changed.notify_all();
        let thread = shared.take().and_then(|background| background.thread);
        drop(shared);
        if let Some(thread) = thread {
            // It has nothing to say: what went wrong is told by the filter it went wrong with.
            let _ = thread.join();
        }
    }
}
