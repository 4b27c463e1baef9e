//! Sectors that become zero under an open writer which then changes their page (F-86).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use bloomfile::{
    CellKind, Error, Filter, Options, Reader,
    geometry::Geometry,
    ops::repair,
    report::{inspect, verify},
};
use common::*;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

#[test]
fn f86_damage_under_a_writer_is_not_blessed() {
    let exact = || Options::new().geometry(Geometry::line(8, 640).unwrap()).journal_bytes(1 << 18);
    let planned =
        || Options::new().capacity(3_000).false_positive_rate(0.01).journal_bytes(1 << 18);
    for (kind, options) in [
        ("plain", exact()),
        ("growing", planned().grow()),
        ("rotating", exact().generations(2)),
        ("counting", exact().kind(CellKind::Counting)),
    ] {
        let folder = Folder::new();
        let path = folder.at("live");
        let filter = options.create(&path).unwrap();
        (0..2_000).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        filter.checkpoint().unwrap();
        let segment = inspect(&path).unwrap().segments.last().unwrap().clone();
        // Four sectors of the second data page.
        let page = segment.offset + segment.table_bytes + 4096;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        write_at(&file, &[0; 4 * 512], page + 512);
        (2_000..2_400).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        let error = filter.close().expect_err(kind);
        let named = matches!(error.cause(), Error::Damaged { page: 1, .. });
        assert!(named, "{kind}: {error}");
        // Nothing was written that takes the damage for data.
        assert!(
            matches!(Filter::open(&path).map_err(Error::into_cause), Err(Error::Damaged { .. })),
            "{kind}"
        );
        assert!(!verify(&path).unwrap().is_sound(), "{kind}");
        repair(&path).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert!((0..2_000).all(|number| reader.contains(key(number))), "{kind}");
        assert!(verify(&path).unwrap().is_sound(), "{kind}");
    }
}
