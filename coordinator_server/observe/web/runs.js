// Folds the rebalances of a flapping group as `groups why` does (coordinator_server/cli/rebalance_folding.py, which a
// test compares): those that are alike, and close, are one entry.

const LEAST = 3;
const APART_MS = 600_000;
const FURTHER = 3;

/** What stays the same when a client comes back as a new member. */
const party = (member) => [member.client_id, member.group_instance_id, member.client_host];

/** Lists of rebalances, the latest first; a run stands where its latest stood. */
export function runs(events) {
  const found = [];
  const open = new Map();
  for (const event of events) {
    const key = JSON.stringify([event.reason, event.outcome, party(event.culprit)]);
    let run = open.get(key);
    if (!run || run.at(-1).started_ms - event.started_ms > APART_MS) {
      run = [];
      open.set(key, run);
      found.push(run);
    }
    run.push(event);
  }
  const alone = found.filter((run) => run.length < LEAST).flat().map((event) => [event]);
  const folded = found.filter((run) => run.length >= LEAST);
  return [...alone, ...folded].sort((one, other) => other[0].started_ms - one[0].started_ms);
}

/** What set the rebalances of a run back while they were under way, and how often. */
export function further(run) {
  const counts = new Map();
  for (const { reason, culprit } of run.flatMap((event) => event.rounds.slice(1))) {
    const key = JSON.stringify([reason, party(culprit)]);
    const entry = counts.get(key) ?? { count: 0, reason, culprit };
    entry.count += 1;
    counts.set(key, entry);
  }
  return [...counts.values()].sort((one, other) => other.count - one.count).slice(0, FURTHER);
}

/** What the client gave as its reason most often, and how often; null if it gave none. */
export function said(run) {
  const counts = new Map();
  for (const { client_reason: text } of run) if (text) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1])[0] ?? null;
}
