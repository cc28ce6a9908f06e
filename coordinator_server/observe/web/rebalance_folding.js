// Folds similar rebalances of a flapping group as coordinator_server/cli/rebalance_folding.py does; a test compares the two.

const MIN_FOLDED = 3;
const MAX_GAP_MS = 600_000;
const MAX_RESTARTS = 3;

/** The attributes that a client keeps when it returns as a new member. */
const party = (member) => [member.client_id, member.group_instance_id, member.client_host];

/** Lists of rebalances, the latest first; an entry keeps the position of its latest rebalance. */
export function fold(events) {
  const found = [];
  const open = new Map();
  for (const event of events) {
    const key = JSON.stringify([event.reason, event.outcome, party(event.culprit)]);
    let entry = open.get(key);
    if (!entry || entry.at(-1).started_ms - event.started_ms > MAX_GAP_MS) {
      entry = [];
      open.set(key, entry);
      found.push(entry);
    }
    entry.push(event);
  }
  const single = found.filter((entry) => entry.length < MIN_FOLDED).flat().map((event) => [event]);
  const folded = found.filter((entry) => entry.length >= MIN_FOLDED);
  return [...single, ...folded].sort((one, other) => other[0].started_ms - one[0].started_ms);
}

/** Count, reason and culprit of the rounds that restarted the rebalances of an entry. */
export function restarts(entry) {
  const counts = new Map();
  for (const { reason, culprit } of entry.flatMap((event) => event.rounds.slice(1))) {
    const key = JSON.stringify([reason, party(culprit)]);
    const cause = counts.get(key) ?? { count: 0, reason, culprit };
    cause.count += 1;
    counts.set(key, cause);
  }
  return [...counts.values()].sort((one, other) => other.count - one.count).slice(0, MAX_RESTARTS);
}

/** The most frequent reason given by the client and its count; null if it gave none. */
export function clientReason(entry) {
  const counts = new Map();
  for (const { client_reason: text } of entry) if (text) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1])[0] ?? null;
}
