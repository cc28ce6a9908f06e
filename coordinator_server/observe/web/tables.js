// Builds the tables of a group: rebalances, refused requests, awaited members, members, offsets.

import { clock, h, section, table } from './dom.js';
import { clientReason, fold, restarts } from './rebalance_folding.js';
import { memberName, number, reasonChip, removal, shortName, span, timeOfDay, when, words } from './formatting.js';

const NAMED = 4;

function named(title, members) {
  if (!members?.length) return null;
  const names = members.slice(0, NAMED).map(shortName).join(', ');
  const more = members.length > NAMED ? ` and ${members.length - NAMED} more` : '';
  return h('div', {}, h('span', { class: 'quiet' }, `${title} `), names + more);
}

function cause(event) {
  const rounds = (event.rounds ?? []).slice(1).map((round) => h('div', { class: 'round' },
    h('span', { class: 'quiet' }, 'restarted by '), reasonChip(round.reason), ' ', memberName(round.culprit)));
  const quote = event.client_reason ? h('q', {}, event.client_reason) : null;
  return [reasonChip(event.reason), quote, ...rounds];
}

function waitedFor(event) {
  if (!event.waited_for?.length) return h('span', { class: 'quiet' }, '–');
  return event.waited_for.slice(0, NAMED).map((member) => h('div', {}, shortName(member),
    member.waited_ms === undefined ? null : h('span', { class: 'quiet time' }, ` ${span(member.waited_ms)}`)));
}

const COLUMNS = [['When', 'time'], ['Generation', 'num'], ['Reason', ''], ['Culprit', ''],
  ['Join', 'num'], ['Sync', 'num'], ['Members', 'num'], ['Changes', ''], ['Waited for', '']];

function rebalanceCells(event) {
  return [
    when(event.started_ms),
    event.outcome === 'completed' ? `${event.generation_before} → ${event.generation_after}` : words(event.outcome),
    cause(event),
    memberName(event.culprit),
    span(event.join_phase_ms),
    span(event.sync_phase_ms),
    `${event.members_before} → ${event.members_after}`,
    [named('joined', event.joined), named('left', event.left), named('evicted', event.evicted)],
    waitedFor(event),
  ];
}

/** The name of a client that may have been several members, one after the other. */
const clientName = (member) => memberName(member.client_id ? { ...member, member_id: '' } : member);

/** The most frequent reason given by the client, and its count if some rebalances have another. */
function quoted(entry) {
  const [text, times] = clientReason(entry) ?? [];
  return text ? [h('q', {}, text), times < entry.length ? h('div', { class: 'round quiet' }, `reason given ${times} ×`) : null] : null;
}

/** One row for folded rebalances, with the causes of their restarts. */
function foldedCells(entry) {
  const [last, first] = [entry[0], entry.at(-1)];
  const inAll = (phase) => [span(entry.reduce((sum, event) => sum + event[phase], 0)), h('div', { class: 'quiet' }, 'in all')];
  const rounds = restarts(entry).map(({ count, reason, culprit }) => h('div', { class: 'round' },
    h('span', { class: 'quiet' }, `restarted ${count} × by `), reasonChip(reason), ' ', clientName(culprit)));
  return [
    `${when(first.started_ms)} – ${timeOfDay(last.started_ms)}`,
    last.outcome === 'completed' ? `${first.generation_before} → ${last.generation_after}` : words(last.outcome),
    [h('b', {}, `${entry.length} × `), reasonChip(last.reason), quoted(entry), ...rounds],
    clientName(last.culprit),
    inAll('join_phase_ms'),
    inAll('sync_phase_ms'),
    `${first.members_before} → ${last.members_after}`,
    h('span', { class: 'quiet' }, '–'),
    h('span', { class: 'quiet' }, '–'),
  ];
}

/** The table of rebalances, the latest first; `toggle` switches between folded and single ones. */
export function rebalances(events, isFolded, toggle) {
  const folded = fold(events);
  const entries = isFolded ? folded : events.map((event) => [event]);
  const shown = table('Rebalances, the latest first', COLUMNS, entries.map((entry) => (entry.length === 1 ? rebalanceCells(entry[0]) : foldedCells(entry))), {
    keys: entries.map((entry) => entry.map((event) => `rebalance-${event.started_ms}`).join(' ')),
    empty: 'No finished rebalance is known.',
  });
  if (folded.length === events.length) return shown;
  const label = isFolded ? `Show all ${events.length} rebalances` : 'Fold similar rebalances';
  return h('div', {}, shown, h('button', { type: 'button', id: 'fold', on: { click: toggle } }, label));
}

function senders(refusal) {
  return refusal.of_all ? ['several members, first ', sender(refusal)] : sender(refusal);
}

function sender(refusal) {
  const { member_id: id, client_id: client, group_instance_id: instance } = refusal.member;
  // The names of an operator's requests are in lower case, those of Kafka's APIs are not.
  const isOperator = refusal.api === refusal.api.toLowerCase();
  return id || client || instance || isOperator ? memberName(refusal.member) : h('span', { class: 'quiet' }, 'a client');
}

/** The table of refused requests. */
export function refusals(list) {
  const columns = [['When', 'time'], ['Member', ''], ['Answer', ''], ['Because', 'wide'], ['Times', 'num']];
  const rows = list.map((refusal) => [
    refusal.count > 1 ? `${timeOfDay(refusal.first_ms)} – ${timeOfDay(refusal.at_ms)}` : when(refusal.at_ms),
    senders(refusal),
    [h('code', {}, refusal.error), h('div', { class: 'quiet' }, `to ${refusal.api}${refusal.error === 'REBALANCE_IN_PROGRESS' ? ', normal during a rebalance' : ''}`)],
    refusal.removed ? `${removal(refusal.removed.reason)} at ${timeOfDay(refusal.removed.at_ms)}` : refusal.detail,
    number(refusal.count ?? 1),
  ]);
  return section('refusals', 'Refused requests', 'errors that members and operators got',
    table('Refused requests, the latest first', columns, rows, { empty: 'No request was refused.' }));
}

/** The table of members that a rebalance waits for. */
export function waiting(state) {
  if (!state?.waiting?.length) return null;
  const phase = state.phase ?? 'join';
  const columns = [['Member', ''], ['Kind', ''], ['Must still', ''], ['For', 'num'], ['Removed in', 'num']];
  const rows = state.waiting.map((member) => [
    memberName(member),
    member.kind,
    member.for,
    member.since_ms === null || member.since_ms === undefined ? '–' : clock(member.since_ms, 'age'),
    member.deadline_ms === null || member.deadline_ms === undefined ? '–' : clock(member.deadline_ms, 'left'),
  ]);
  const title = `Waiting for ${state.waiting.length === 1 ? '1 member' : `${state.waiting.length} members`} to ${phase}`;
  return h('div', { class: 'waiting' }, section('waiting', title,
    `${state.joined} of ${state.expected} have done so`, table(title, columns, rows)));
}

function assignment(member) {
  const parts = Object.entries(member.assigned ?? {}).map(([topic, partitions]) => h('div', {},
    topic, h('span', { class: 'quiet' }, ` ${partitions.join(' ')}`)));
  return parts.length ? parts : h('span', { class: 'quiet' }, '–');
}

/** The table of members and their partitions. */
export function members(group) {
  const columns = [['Member', ''], ['Member id', 'id'], ['Partitions', 'wide'], ['Session', 'num'], ['Rebalance', 'num']];
  const rows = (group.members ?? []).map((member) => [
    [memberName(member), member.member_id === group.leader ? h('span', { class: 'tag' }, 'leader') : null],
    h('code', {}, member.member_id),
    assignment(member),
    span(member.session_timeout_ms),
    span(member.rebalance_timeout_ms),
  ]);
  return section('members', 'Members', null, table('Members', columns, rows, { empty: 'The group has no members.' }));
}

/** The table of committed offsets and their expiration. */
export function offsets(list) {
  const columns = [['Topic', ''], ['Partition', 'num'], ['Offset', 'num'], ['Committed', 'num'], ['Expires', 'num'], ['Metadata', 'wide-only']];
  const rows = list.map((offset) => [
    offset.topic,
    offset.partition,
    number(offset.offset),
    clock(offset.commit_ms, 'ago'),
    offset.expire_ms === null ? h('span', { class: 'quiet' }, 'in use') : clock(offset.expire_ms, 'left'),
    offset.metadata || h('span', { class: 'quiet' }, '–'),
  ]);
  return section('offsets', 'Committed offsets', null,
    table('Committed offsets', columns, rows, { empty: 'The group has not committed any offset.', narrow: 'plain' }));
}

/** Sentences about flapping members and rebalance storms; past ones have their end. */
export function findings(list, link, past = []) {
  if (!list?.length && !past.length) return null;
  const items = [...list, ...past].map((finding) => h('li', {},
    past.includes(finding) ? h('span', { class: 'quiet' }, `until ${when(finding.last_ms)}: `) : null,
    link ? [h('a', { href: `#/groups/${encodeURIComponent(finding.group)}` }, finding.group), ' '] : null,
    finding.sentence));
  return h('div', { class: 'findings' }, section('findings', 'Worth a look', null, h('ul', {}, items)));
}
