//! A disk with a volatile cache: after a power cut, each sector that was written since the last flush
//! is old or new.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ledger::{Ledger, Phase, Told};
use crate::random::Random;

/// What a disk writes as one (F-110).
pub(crate) const SECTOR: usize = 512;

/// The power is off, or was off since the request's machine was started.
#[derive(Debug, PartialEq)]
pub(crate) struct NoPower;

/// Which of the writes since the last flush a power cut leaves on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Each sector of each write by chance: this number of 8.
    Sectors(u64),
    /// Each write as a whole by chance, so that writes overtake one another.
    Writes,
    /// The first ones, up to some sector: a cache that is emptied in order.
    First,
    /// All of them.
    All,
    /// None of them.
    None,
}

impl Keep {
    /// The ways in which a campaign cuts the power, some more often than others.
    pub(crate) const WAYS: [Keep; 8] = [
        Keep::Sectors(4),
        Keep::Writes,
        Keep::None,
        Keep::First,
        Keep::Sectors(1),
        Keep::Sectors(7),
        Keep::None,
        Keep::All,
    ];
}

/// What became of the sectors that were written and not flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) kept: u64,
    pub(crate) dropped: u64,
}

/// What a disk was asked to do since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
}

struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

/// When the power is to be cut, and the page from which is read what had been told by then.
struct Plan {
    /// Writes and flushes until then, the one during which it happens included.
    requests: u64,
    ledger: Arc<Ledger>,
}

struct State {
    /// What a power cut cannot take away.
    durable: Vec<u8>,
    /// What a read gives.
    cached: Vec<u8>,
    /// The difference, in the order of arrival.
    unflushed: Vec<Write>,
    /// How often the power came on. Requests of an earlier time come from a machine that is dead.
    boot: u64,
    powered: bool,
    plan: Option<Plan>,
    /// What had been told when the power was cut.
    told: Option<Told>,
    requests: Requests,
}

/// A disk in memory.
pub(crate) struct Disk {
    state: Mutex<State>,
    cut: Condvar,
    /// What is kept or lost as one, and longer parts that are: what a file system relies on.
    block: usize,
    whole: Vec<Range<usize>>,
}

impl Disk {
    /// A disk that holds an image, with the power off.
    pub(crate) fn new(image: &[u8], block: usize, whole: &[Range<usize>]) -> Self {
        assert!(block.is_multiple_of(SECTOR) && image.len().is_multiple_of(block));
        let state = State {
            cached: sparse_copy(image),
            durable: sparse_copy(image),
            unflushed: Vec::new(),
            boot: 0,
            powered: false,
            plan: None,
            told: None,
            requests: Requests::default(),
        };
        Disk { state: Mutex::new(state), cut: Condvar::new(), block, whole: whole.to_vec() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn length(&self) -> usize {
        self.state().cached.len()
    }

    pub(crate) fn requests(&self) -> Requests {
        self.state().requests
    }

    /// Turns the power on and tells which boot this is.
    pub(crate) fn power_on(&self) -> u64 {
        let mut state = self.state();
        assert!(!state.powered && state.unflushed.is_empty());
        state.boot += 1;
        state.powered = true;
        state.told = None;
        state.boot
    }

    /// Cuts the power during the write or flush with this number, counted from 1 and from the moment
    /// in which the file system is mounted.
    pub(crate) fn cut_during(&self, request: u64, ledger: Arc<Ledger>) {
        assert!(request > 0);
        self.state().plan = Some(Plan { requests: request, ledger });
    }

    /// What had been told when the power was cut, once it was.
    pub(crate) fn wait_for_cut(&self, limit: Duration) -> Option<Told> {
        let state = self.state();
        let wait = self.cut.wait_timeout_while(state, limit, |state| state.told.is_none());
        let (state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        state.told.clone()
    }

    /// Cuts the power now, if it is on.
    pub(crate) fn cut_now(&self, ledger: &Ledger) {
        let mut state = self.state();
        if state.powered {
            state.cut(ledger);
        }
    }

    /// Decides what is left of the writes that were not flushed: by blocks, and in the parts that
    /// are `torn` by sectors. The power must be off.
    pub(crate) fn settle(&self, keep: Keep, torn: &[Range<u64>], random: &mut Random) -> Fate {
        let mut state = self.state();
        assert!(!state.powered);
        let writes = std::mem::take(&mut state.unflushed);
        let pieces: Vec<(usize, &[u8], usize)> = writes
            .iter()
            .enumerate()
            .flat_map(|(number, write)| {
                self.pieces(write, torn).map(move |(offset, bytes)| (offset, bytes, number))
            })
            .collect();
        let whole_writes: Vec<bool> = writes.iter().map(|_| random.below(2) == 0).collect();
        let first = random.below(pieces.len() as u64 + 1) as usize;
        let mut fate = Fate::default();
        for (at, &(offset, bytes, write)) in pieces.iter().enumerate() {
            let kept = match keep {
                Keep::Sectors(of_eight) => random.below(8) < of_eight,
                Keep::Writes => whole_writes[write],
                Keep::First => at < first,
                Keep::All => true,
                Keep::None => false,
            };
            let sectors = (bytes.len() / SECTOR) as u64;
            if kept {
                state.durable[offset..offset + bytes.len()].copy_from_slice(bytes);
                fate.kept += sectors;
            } else {
                fate.dropped += sectors;
            }
        }
        let State { durable, cached, .. } = &mut *state;
        for Write { offset, bytes } in &writes {
            let range = *offset..offset + bytes.len();
            cached[range.clone()].copy_from_slice(&durable[range]);
        }
        fate
    }

    /// The parts of a write that are kept or lost as one.
    fn pieces<'a>(
        &self,
        write: &'a Write,
        torn: &[Range<u64>],
    ) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < write.bytes.len() {
            let offset = write.offset + at;
            let is_torn = torn.iter().any(|range| range.contains(&(offset as u64)));
            let end = match self.whole.iter().find(|range| range.contains(&offset)) {
                Some(range) => range.end,
                None if is_torn => offset + SECTOR,
                None => (offset / self.block + 1) * self.block,
            };
            let end = (end - write.offset).min(write.bytes.len());
            pieces.push((offset, &write.bytes[at..end]));
            at = end;
        }
        pieces.into_iter()
    }

    pub(crate) fn read(&self, boot: u64, offset: u64, bytes: &mut [u8]) -> Result<usize, NoPower> {
        let state = self.state();
        state.check_power(boot)?;
        let start = (offset as usize).min(state.cached.len());
        let end = (start + bytes.len()).min(state.cached.len());
        bytes[..end - start].copy_from_slice(&state.cached[start..end]);
        Ok(end - start)
    }

    /// A write: into the cache, from where it reaches the disk by a flush, or by chance.
    pub(crate) fn write(&self, boot: u64, offset: u64, bytes: &[u8]) -> Result<(), NoPower> {
        let mut state = self.state();
        state.check_power(boot)?;
        let offset = offset as usize;
        assert!(offset.is_multiple_of(SECTOR) && bytes.len().is_multiple_of(SECTOR));
        state.cached[offset..offset + bytes.len()].copy_from_slice(bytes);
        state.unflushed.push(Write { offset, bytes: bytes.to_vec() });
        state.requests.writes += 1;
        self.count(&mut state)
    }

    /// A flush: what was written before is durable when this returns.
    pub(crate) fn flush(&self, boot: u64) -> Result<(), NoPower> {
        let mut state = self.state();
        state.check_power(boot)?;
        state.requests.flushes += 1;
        self.count(&mut state)?;
        let State { durable, unflushed, .. } = &mut *state;
        for Write { offset, bytes } in unflushed.drain(..) {
            durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Counts a write or a flush, and cuts the power if its time has come.
    fn count(&self, state: &mut State) -> Result<(), NoPower> {
        let Some(plan) = &mut state.plan else { return Ok(()) };
        // What the file system does to recover is not under test.
        if plan.ledger.phase() == Phase::Booting {
            return Ok(());
        }
        plan.requests -= 1;
        if plan.requests > 0 {
            return Ok(());
        }
        let ledger = plan.ledger.clone();
        state.cut(&ledger);
        self.cut.notify_all();
        Err(NoPower)
    }
}

impl State {
    fn check_power(&self, boot: u64) -> Result<(), NoPower> {
        if self.powered && boot == self.boot { Ok(()) } else { Err(NoPower) }
    }

    /// What had been told is read while no request is served: a sync that was told of has had its
    /// flush, and one whose flush comes later has not been told of.
    fn cut(&mut self, ledger: &Ledger) {
        self.told = Some(ledger.told());
        self.powered = false;
        self.plan = None;
    }
}

/// A copy that takes memory only where there is something: most of a new file system is zeros.
fn sparse_copy(image: &[u8]) -> Vec<u8> {
    let mut copy = vec![0; image.len()];
    for (to, from) in copy.chunks_mut(4096).zip(image.chunks(4096)) {
        if from.iter().any(|&byte| byte != 0) {
            to.copy_from_slice(from);
        }
    }
    copy
}

mod tests {
    use super::*;

    fn disk() -> (Disk, u64) {
        let disk = Disk::new(&[0; 8 * SECTOR], SECTOR, &[4 * SECTOR..6 * SECTOR]);
        let boot = disk.power_on();
        (disk, boot)
    }

    /// The first byte of each sector.
    fn sectors(disk: &Disk) -> Vec<u8> {
        let boot = disk.power_on();
        let mut bytes = vec![0xff; 9 * SECTOR];
        assert_eq!(disk.read(boot, 0, &mut bytes), Ok(8 * SECTOR));
        bytes.chunks(SECTOR).take(8).map(|sector| sector[0]).collect()
    }

    fn cut(disk: &Disk, keep: Keep, seed: u64) -> Fate {
        disk.cut_now(&Ledger::alone());
        disk.settle(keep, &[], &mut Random::new(seed))
    }

    #[test]
    fn a_disk_keeps_what_was_flushed_and_drops_the_rest() {
        let (disk, boot) = disk();
        disk.write(boot, 0, &[1; 3 * SECTOR]).unwrap();
        disk.flush(boot).unwrap();
        disk.write(boot, SECTOR as u64, &[2; 2 * SECTOR]).unwrap();
        let mut seen = [0; SECTOR];
        disk.read(boot, SECTOR as u64, &mut seen).unwrap();
        assert_eq!(seen, [2; SECTOR], "the cache is read");
        assert_eq!(cut(&disk, Keep::None, 1), Fate { kept: 0, dropped: 2 });
        assert_eq!(sectors(&disk), [1, 1, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_disk_without_power_does_nothing() {
        let (disk, boot) = disk();
        disk.write(boot, 0, &[1; SECTOR]).unwrap();
        disk.cut_now(&Ledger::alone());
        assert_eq!(disk.write(boot, 0, &[2; SECTOR]), Err(NoPower));
        assert_eq!(disk.flush(boot), Err(NoPower));
        disk.settle(Keep::All, &[], &mut Random::new(1));
        let next = disk.power_on();
        assert_eq!(disk.flush(boot), Err(NoPower), "a machine from before the cut");
        assert_eq!(disk.flush(next), Ok(()));
        cut(&disk, Keep::None, 1);
        assert_eq!(sectors(&disk), [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_disk_drops_any_sector_and_keeps_parts_together_that_are_one() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..2_000 {
            let (disk, boot) = disk();
            disk.write(boot, 3 * SECTOR as u64, &[1; 4 * SECTOR]).unwrap();
            disk.write(boot, 6 * SECTOR as u64, &[2; SECTOR]).unwrap();
            cut(&disk, Keep::Sectors(4), seed);
            seen.insert(sectors(&disk));
        }
        let mut all = std::collections::BTreeSet::new();
        for (third, fourth, sixth) in [0, 1].iter().flat_map(|&third| {
            [0, 1].into_iter().flat_map(move |fourth| [0, 1, 2].map(|sixth| (third, fourth, sixth)))
        }) {
            all.insert(vec![0, 0, 0, third, fourth, fourth, sixth, 0]);
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn a_disk_tears_blocks_only_where_it_is_told_to() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let disk = Disk::new(&[0; 8 * SECTOR], 2 * SECTOR, &[]);
            let boot = disk.power_on();
            disk.write(boot, SECTOR as u64, &[1; 6 * SECTOR]).unwrap();
            disk.cut_now(&Ledger::alone());
            let torn = 4 * SECTOR as u64..6 * SECTOR as u64;
            disk.settle(Keep::Sectors(4), &[torn], &mut Random::new(seed));
            let sectors = sectors(&disk);
            assert_eq!(sectors[2], sectors[3]);
            seen.insert(sectors);
        }
        // The second half of a block, a block, two sectors, the first half of a block.
        assert_eq!(seen.len(), 32);
    }

    #[test]
    fn a_disk_that_empties_its_cache_in_order_keeps_a_beginning() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let (disk, boot) = disk();
            disk.write(boot, 0, &[1; 2 * SECTOR]).unwrap();
            disk.write(boot, SECTOR as u64, &[2; 2 * SECTOR]).unwrap();
            cut(&disk, Keep::First, seed);
            seen.insert(sectors(&disk)[..3].to_vec());
        }
        let all = [vec![0, 0, 0], vec![1, 0, 0], vec![1, 1, 0], vec![1, 2, 0], vec![1, 2, 2]];
        assert_eq!(seen, all.into_iter().collect());
    }

    #[test]
    fn a_flush_that_the_power_cut_meets_makes_nothing_durable() {
        let (disk, boot) = disk();
        let ledger = Arc::new(Ledger::alone());
        disk.cut_during(2, ledger.clone());
        disk.flush(boot).unwrap();
        disk.flush(boot).unwrap();
        ledger.enter(Phase::Working);
        disk.write(boot, 0, &[1; SECTOR]).unwrap();
        assert!(disk.wait_for_cut(Duration::ZERO).is_none());
        assert_eq!(disk.flush(boot), Err(NoPower));
        assert!(disk.wait_for_cut(Duration::ZERO).is_some());
        disk.settle(Keep::None, &[], &mut Random::new(1));
        assert_eq!(sectors(&disk), [0; 8]);
    }
}
