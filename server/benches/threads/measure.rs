//! First every cell once, then the default and the best cells in turns, so that the choice of the best is not
//! also the measurement of it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use loadgen::{Plan as LoadPlan, Report};

use crate::{
    cell::{self, Cell},
    support::{
        Outcome,
        machine::Clock,
        server::{Plan, Server, Start},
        workload::{self, Format, Workload, answered},
    },
};

/// Connections of the two loads: enough for every instance and every batch, and one that is alone.
pub const LOADS: [usize; 2] = [16, 1];

/// The first block of a server, which does not count.
const WARM_UP: Duration = Duration::from_millis(250);

/// A cell so slow that a connection had fewer answers than this in a block gets another, so many times as long.
const FEW: u64 = 2;
const LONGER: u32 = 4;

/// Length of blocks, and how many.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// One block of a cell, for each load.
    pub block: Duration,
    /// Blocks of the default and of each rival.
    pub rounds: usize,
    /// Best cells of each load that meet the default.
    pub rivals: usize,
}

/// A cell and one block for each of [`LOADS`].
pub struct Row {
    pub cell: Cell,
    pub plan: Plan,
    pub reports: [Report; 2],
}

/// The default beside one of the best cells, or a second server of its own kind, in rounds.
pub struct Duel {
    pub rival: Cell,
    /// The default's requests/s over the rival's, for each of [`LOADS`] and each round.
    pub rate: [Vec<f64>; 2],
    /// The default's processor time of a request over the rival's.
    pub cpu: [Vec<f64>; 2],
}

/// All that was found for one model.
pub struct Findings {
    pub model: &'static str,
    pub rows: Vec<Row>,
    pub duels: Vec<Duel>,
    /// Share of the machine's time that the hypervisor gave to others.
    pub steal: f64,
    /// Share that other programs used.
    pub others: f64,
}

/// A server that has one model, in one cell.
struct Contender {
    cell: Cell,
    server: Server,
    workload: Workload,
}

pub fn measure(model: &'static str, folder: &Path, effort: Effort) -> Outcome<Findings> {
    let before = Clock::read();
    let mut rows = Vec::new();
    for cell in cell::grid() {
        eprintln!("{model}: {cell} ..");
        let contender = Contender::new(model, cell, folder)?;
        let [many, alone] = LOADS.map(|it| contender.block(it, effort.block));
        let plan = contender.server.plan(model)?;
        rows.push(Row { cell, plan, reports: [many?, alone?] });
    }
    let duels = duel(model, folder, effort, &rivals(&rows, effort.rivals))?;
    let after = Clock::read();
    let (steal, others) = (after.steal_since(&before), after.others_since(&before));
    Ok(Findings { model, rows, duels, steal, others })
}

/// The best cells of either load, and before them the default once more: its ratio to itself is what the
/// machine's noise makes of equals.
fn rivals(rows: &[Row], most: usize) -> Vec<Cell> {
    let mut best = vec![Cell::Default];
    for load in 0..LOADS.len() {
        let mut order: Vec<&Row> = rows.iter().filter(|it| it.cell != Cell::Default).collect();
        order.sort_by(|a, b| b.reports[load].throughput.total_cmp(&a.reports[load].throughput));
        for row in order.into_iter().take(most) {
            if !best.contains(&row.cell) {
                best.push(row.cell);
            }
        }
    }
    best
}

fn duel(model: &'static str, folder: &Path, effort: Effort, rivals: &[Cell]) -> Outcome<Vec<Duel>> {
    let cells = [Cell::Default].into_iter().chain(rivals.iter().copied());
    // Each has files of its own: a server makes no second session of files that were written again meanwhile.
    let new = |(number, cell)| Contender::new(model, cell, &folder.join(format!("{number}")));
    let contenders: Vec<Contender> = cells.enumerate().map(new).collect::<Outcome<_>>()?;
    let new = |&rival| Duel { rival, rate: Default::default(), cpu: Default::default() };
    let mut duels: Vec<Duel> = rivals.iter().map(new).collect();
    let mut turn: Vec<usize> = (0..contenders.len()).collect();
    for round in 0..effort.rounds {
        eprintln!("{model}: round {} ..", round + 1);
        for (load, &connections) in LOADS.iter().enumerate() {
            let mut reports = BTreeMap::new();
            for &it in &turn {
                reports.insert(it, contenders[it].block(connections, effort.block)?);
            }
            let default = &reports[&0];
            for (duel, rival) in duels.iter_mut().zip(reports.values().skip(1)) {
                duel.rate[load].push(default.throughput / rival.throughput);
                duel.cpu[load].push(cpu(default) / cpu(rival));
            }
        }
        // Everybody comes first and last, and beside everybody else.
        turn.reverse();
        turn.rotate_left(1 + round % 2);
    }
    Ok(duels)
}

/// The server's processor time of a request, in microseconds; not a number where the kernel did not say.
pub fn cpu(report: &Report) -> f64 {
    report.server.map_or(f64::NAN, |it| crate::support::micros(it.cpu.per_request))
}

impl Contender {
    fn new(model: &'static str, cell: Cell, folder: &Path) -> Outcome<Contender> {
        let workload = workload::fixture(model)?.configured(cell.config());
        let repository = folder.join(model).join(cell.folder());
        workload.install(&repository)?;
        let server = Start::new(&repository).start()?;
        let contender = Contender { cell, server, workload };
        // Instances are made when there is work for them, and batches find their size.
        contender.block(LOADS[0], WARM_UP)?;
        Ok(contender)
    }

    /// The server is stopped in between: its threads may be of those that do not rest.
    fn block(&self, connections: usize, block: Duration) -> Outcome<Report> {
        self.server.resume()?;
        let mut load = LoadPlan {
            connections,
            warm_up: block.div_f64(5.0),
            duration: Some(block),
            ..self.workload.closed_loop(&self.server, Format::Binary)?
        };
        let what = format!("{}, {}", self.workload.name, self.cell);
        let mut report = answered(&what, &load)?;
        if report.ok < FEW * connections as u64 {
            load.duration = Some(block * LONGER);
            report = answered(&what, &load)?;
        }
        self.server.pause()?;
        Ok(report)
    }
}
