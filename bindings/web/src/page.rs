//! What the page shows of a file: the report of `bloomfile inspect --html`, in its parts.

use std::path::Path;

use bloomfile_describe::pages::PageMaps;
use bloomfile_describe::{MAP_CELLS, Report, Sections};
use serde::Serialize;
use thrown::document;
use wasm_bindgen::prelude::*;

use crate::{Job, Outcome, Ranges, Work};

/// A report that is being made.
#[wasm_bindgen]
pub struct Reporter {
    report: Report,
    maps: Option<PageMaps>,
}

/// Its parts, as HTML.
#[derive(Serialize)]
struct Parts {
    what: String,
    advice: String,
    cards: String,
    charts: String,
    checks: String,
    parameters: String,
    metadata: String,
}

#[wasm_bindgen]
impl Reporter {
    /// Of a file of which headers and page tables were read.
    #[wasm_bindgen(constructor)]
    pub fn new(file: &Ranges, name: String) -> Reporter {
        let inspection = file.file.inspect();
        let maps = Some(PageMaps::new(&inspection.segments, MAP_CELLS));
        let (loads, digest, verification) = (Vec::new(), None, None);
        let report =
            Report { file: name, inspection, maps: Vec::new(), loads, verification, digest };
        Reporter { report, maps }
    }

    /// Takes what a job found out: pages that were listed, a check, or how keys are spread.
    pub fn take(&mut self, job: &Job) {
        match &job.outcome {
            Some(Outcome::Pages(pages)) => {
                if let Some(maps) = &mut self.maps {
                    pages.iter().for_each(|page| maps.add(page));
                }
            }
            Some(Outcome::Verified(found)) => self.report.verification = Some(Ok(found.clone())),
            Some(Outcome::Measured(loads)) => self.report.loads.clone_from(loads),
            _ => {}
        }
    }

    /// Takes the whole file, for its digest.
    pub fn digest(&mut self, bytes: Vec<u8>) {
        // A damaged file has none.
        self.report.digest = bloomfile::ops::digest_bytes(bytes).ok().map(|it| it.to_string());
    }

    /// What is known so far.
    pub fn sections(&mut self) -> JsValue {
        if let Some(maps) = self.maps.take() {
            self.report.maps = maps.finish();
        }
        let path = Path::new(&self.report.file);
        let Sections { advice, cards, charts, checks, parameters, metadata } =
            self.report.sections(path);
        let what = self.report.what();
        document(&Parts { what, advice, cards, charts, checks, parameters, metadata })
    }
}

#[wasm_bindgen]
impl Ranges {
    /// Tells how the keys are spread over the blocks.
    pub fn loads(&self) -> Job {
        Job { work: Work::Measuring(self.file.block_loads()), outcome: None }
    }
}
