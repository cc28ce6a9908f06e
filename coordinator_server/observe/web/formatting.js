// Formats times, numbers, names and reasons for the page.

import { date, h } from './dom.js';

const FAMILIES = {
  came: { title: 'a member joined', mark: '+' },
  went: { title: 'a member left', mark: '−' },
  failed: { title: 'a member was removed after a timeout', mark: '×' },
  changed: { title: 'a member changed or joined again', mark: '~' },
  ruled: { title: 'an operator or a limit', mark: '!' },
};

const FAMILY = {
  member_joined: 'came',
  static_replaced: 'came',
  member_left: 'went',
  session_expired: 'failed',
  sync_timeout: 'failed',
  pending_expired: 'failed',
  leader_rejoined: 'changed',
  follower_rejoined: 'changed',
  metadata_changed: 'changed',
  assignment_append_failed: 'ruled',
  admin_removed: 'ruled',
  admin_rebalance: 'ruled',
  over_capacity: 'ruled',
};

/** The families of reasons, for the legend. */
export const families = () => Object.entries(FAMILIES);

const REMOVALS = {
  left: 'it had left',
  session_expired: 'its session had expired',
  join_timeout: 'the group had removed it: it did not join again in time',
  sync_timeout: 'the group had removed it: it did not send SyncGroup in time',
  pending_expired: 'it had not used its member id in time',
  admin_removed: 'an operator had removed it',
  over_capacity: 'the full group had refused it',
};

/** Why the group had removed a member whose request it refused as unknown. */
export const removal = (reason) => REMOVALS[reason] ?? `the group had removed it: ${words(reason)}`;

/** The family of a reason: its colour, pattern and mark. */
export const family = (reason) => FAMILY[reason] ?? 'ruled';

/** The sign of a reason's family, for readers who cannot see its colour. */
export const mark = (reason) => FAMILIES[family(reason)].mark;

/** `session_expired` as `session expired`. */
export const words = (name) => String(name ?? '–').replaceAll('_', ' ');

/** `PreparingRebalance` as `Preparing Rebalance`. */
export const stateWords = (state) => (state ?? 'gone').replace(/([a-z])([A-Z])/g, '$1 $2');

/** A duration: `120 ms`, `4.2 s`, `3 min 5 s`, `2 h 4 min`, `3 d`. */
export function span(ms) {
  const value = Math.max(0, ms);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 10_000) return `${(value / 1000).toFixed(1)} s`;
  return coarse(value);
}

/** A duration in its largest unit, followed by `ago`. */
export function ago(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A duration in whole seconds or larger units. */
export function coarse(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d`;
}

const two = (number) => String(number).padStart(2, '0');

const MIB = 1024 * 1024;

/** The use of the memory budget for client data. */
export function budget({ used_bytes: used, limit_bytes: limit, waiting_connections: waiting }) {
  const mib = (bytes) => number((bytes / MIB).toFixed(bytes < 10 * MIB ? 1 : 0));
  const share = limit === null ? `${mib(used)} MiB` : `${mib(used)} of ${mib(limit)} MiB`;
  const waits = `${number(waiting)} ${waiting === 1 ? 'connection waits' : 'connections wait'} for memory`;
  return `Client data: ${share}${waiting ? `; ${waits}` : ''}`;
}

/** The local time of day. */
export function timeOfDay(ms) {
  const at = date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The local date in ISO format. */
export function day(ms) {
  const at = date(ms);
  return `${String(at.getFullYear()).padStart(4, '0')}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** Local date and time, without the date if it is today. */
export const when = (ms) => (day(ms) === day(Date.now()) ? timeOfDay(ms) : `${day(ms)} ${timeOfDay(ms)}`);

/** A number with thin spaces between thousands. */
export const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f');

/** The short name of a member: its instance id, client id or member id. */
export const shortName = (member) => member.group_instance_id || member.client_id || member.member_id || 'an operator';

/** An element with a member's short name, client id and host. */
export function memberName(member) {
  if (!member || !(member.member_id || member.client_id || member.group_instance_id)) return h('span', { class: 'quiet' }, 'an operator');
  const rest = [member.group_instance_id && member.client_id, (member.client_host || '').replace(/^\//, '')];
  return h('span', { class: 'member', title: member.member_id },
    h('b', {}, shortName(member)), ' ', h('span', { class: 'quiet' }, rest.filter(Boolean).join(' · ')));
}

/** An element with a reason and the sign of its family. */
export function reasonChip(reason) {
  return h('span', { class: `reason ${family(reason)}` },
    h('span', { class: 'reason-mark', 'aria-hidden': 'true' }, mark(reason)), words(reason));
}

const STATE_MARKS = { Stable: '●', Empty: '○', PreparingRebalance: '◐', CompletingRebalance: '◑', Dead: '✕' };

/** An element with a state and its sign. */
export function stateChip(state) {
  return h('span', { class: `state ${state ?? 'gone'}` },
    h('span', { class: 'state-mark', 'aria-hidden': 'true' }, STATE_MARKS[state] ?? '·'), stateWords(state));
}
