//! Damage to the data under an open writer that goes on to change the same pages (F-86).

use super::campaign::Kind;
use super::history::new_filter_of;
use crate::error::Error;
use crate::file::PAGE_WORDS;
use crate::format::Shape;
use crate::geometry::{CellKind, Geometry};
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, SimulatedMedium};
use crate::writer::Engine;

const KINDS: [(CellKind, Shape); 6] = [
    (CellKind::Plain, Shape::Fixed),
    (CellKind::Plain, Shape::Growing),
    (CellKind::Plain, Shape::Rotating(2)),
    (CellKind::Counting, Shape::Fixed),
    (CellKind::Counting, Shape::Growing),
    (CellKind::Counting, Shape::Rotating(2)),
];

/// What became of the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Closing was refused, and so is opening.
    NoticedAtClose,
    /// The writer did not change the page: opening is refused.
    NoticedAtOpen,
    /// Closing was refused; recovery makes the page whole.
    Recovered,
    /// Nothing was to be noticed: what was damaged held no ones.
    Nothing,
    /// It has the right checksum now.
    Blessed,
}

fn run(kind: Kind, seed: u64, sabotage: Option<Sabotage>) -> Fate {
    let mut choices = Choices::new(seed);
    let geometry = match choices.below(3) {
        0 => Geometry::line(8, 128).unwrap(),
        1 => Geometry::rows(3, 20_000).unwrap(),
        _ => Geometry::page(7, 2).unwrap(),
    };
    let medium = new_filter_of(kind, geometry, 8192, sabotage);
    let engine = Engine::open(medium.clone()).unwrap();
    let mut keys = Vec::new();
    let mut add = |engine: &Engine<SimulatedMedium>, count: u64| {
        for _ in 0..count {
            let hash = split_mix(seed, keys.len() as u64);
            engine.add_hash(hash).unwrap();
            keys.push(hash);
        }
    };
    add(&engine, 12);
    if choices.once_in(2) {
        engine.checkpoint().unwrap();
    }
    add(&engine, 6);
    engine.sync(Some(1)).unwrap();
    // A sector of the segment that takes the adds, in which there is something.
    let segment = engine.committed().slot.segments.last().unwrap().clone();
    let extent = segment.extent();
    let data = extent.data() as usize / 8;
    let sectors = extent.pages as usize * PAGE_WORDS / 64;
    let image = medium.view(|view| view.killed());
    let start = choices.below(sectors as u64) as usize;
    let found = (0..sectors)
        .map(|at| data + (start + at) % sectors * 64)
        .find(|&first| image[first..first + 64].iter().any(|&word| word != 0));
    let Some(first) = found else { return Fate::Nothing };
    (first..first + 64).for_each(|word| medium.damage(word, 0));
    if seed.is_multiple_of(3) {
        // Others on in their place: a page with no fewer ones than before.
        (first..first + 64).for_each(|word| medium.damage(word, image[word].rotate_left(4)));
    }
    for hash in (0..200).map(|key| split_mix(!seed, key)).take(4) {
        engine.add_hash(hash).unwrap();
    }
    let closed = engine.close();
    assert!(matches!(closed, Ok(()) | Err(Error::Damaged { .. })), "{closed:?}");
    let refused = Engine::open(SimulatedMedium::new(medium.view(|view| view.killed()), None));
    let fate = match (closed, refused.map(drop)) {
        // Records of counters that were read from the damage do not follow from those before them.
        (Err(_), Err(Error::Damaged { .. } | Error::Journal { .. })) => Fate::NoticedAtClose,
        (Ok(()), Err(Error::Damaged { .. })) => Fate::NoticedAtOpen,
        // Only cells of this epoch were hit, and the journal has them.
        (Err(_), Ok(())) => Fate::Recovered,
        (Ok(()), Ok(())) => return Fate::Blessed,
        (closed, opened) => panic!("{closed:?} {opened:?}"),
    };
    // No key that was promised is denied after that.
    let mended = SimulatedMedium::new(medium.view(|view| view.killed()), None);
    if fate != Fate::Recovered {
        Engine::repair(mended.clone()).unwrap();
    }
    let engine = Engine::open(mended).unwrap();
    assert!(keys.iter().all(|&hash| engine.contains_hash(hash)), "{kind:?} {seed}");
    fate
}

#[test]
fn f86_a_checkpoint_does_not_bless_damage() {
    for (cells, shape) in KINDS {
        let kind = Kind::new(cells, shape);
        let fates: Vec<Fate> = (0..60).map(|seed| run(kind, seed, None)).collect();
        let count = |fate| fates.iter().filter(|&&it| it == fate).count();
        println!(
            "{kind:?}: {} at close, {} at open",
            count(Fate::NoticedAtClose),
            count(Fate::NoticedAtOpen)
        );
        assert_eq!(count(Fate::Blessed), 0, "{kind:?}");
        let noticed = count(Fate::NoticedAtClose) + count(Fate::Recovered);
        assert!(noticed > 20, "{kind:?}: {fates:?}");
    }
}

/// Whether damage gets the right checksum, in filters of every kind, when a step is left out.
pub(super) fn notices(sabotage: Sabotage) -> bool {
    KINDS.into_iter().all(|(cells, shape)| {
        let run = |&seed: &u64| run(Kind::new(cells, shape), seed, Some(sabotage)) == Fate::Blessed;
        let blessed = (0..60).filter(run).count();
        println!("{sabotage:?}, {cells:?}, {shape:?}: {blessed} blessed");
        blessed > 10
    })
}

/// Cells that come without records leave pages that cannot be verified, and are told.
#[test]
fn f86_pages_without_records_are_told() {
    let kind = Kind::PLAIN;
    for (journal_bytes, keys, all_told) in
        [(16384, 300, true), (8192, 2_000, false), (0, 10, false)]
    {
        let medium = new_filter_of(kind, Geometry::line(8, 600).unwrap(), journal_bytes, None);
        let engine = Engine::open(medium.clone()).unwrap();
        for key in 0..keys {
            engine.add_hash(split_mix(4, key)).unwrap();
        }
        engine.close().unwrap();
        assert_eq!(engine.pages_unverified() == 0, all_told, "{journal_bytes}");
        Engine::open(medium).unwrap();
    }
}
