//! The plan of a filter that is built in parts.

use super::Options;
use crate::error::{Error, Result};
use crate::parts::PartPlan;

impl Options {
    /// Plans a filter that is built in `parts` parts, each on a machine of its own; see
    /// [`parts`](crate::parts).
    ///
    /// Its size has to be known: a capacity, or an exact geometry. The layouts are `line`, `page` and
    /// `sealed`; in `rows` and `flat` the keys of a page have nothing in common. The number of parts
    /// does not show in the joined file.
    ///
    /// ```
    /// let options = bloomfile::Options::new().capacity(1_000_000_000).false_positive_rate(0.001);
    /// let plan = options.plan_parts(64)?;
    /// let pages = plan.pages_of(1);
    /// assert!((pages.end - pages.start) * 4096 < 32 << 20, "a part of 2 GB");
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn plan_parts(&self, parts: u64) -> Result<PartPlan> {
        self.check_buildable()?;
        if self.replace {
            let reason = "a plan makes no file: it goes with a part, or with the join";
            return Err(Error::parameter("replace", "set", reason));
        }
        let plan = self.plan()?;
        let superblock = self.built_superblock(&plan)?;
        let metadata = self.metadata_map()?;
        PartPlan::new(superblock, &plan, metadata, self.uuid.is_none(), parts)
    }
}
