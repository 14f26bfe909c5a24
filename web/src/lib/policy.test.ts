import { describe, expect, it } from 'vitest';

import { byArea, chosen, cronInWords, formOf, inOtherWords, namespaceOf, otherWords, type PolicySetting } from './policy';

const setting = (key: string, value = '1', source = 'default', does = ''): PolicySetting => ({ key, value, source, default: '1', does, choices: [], ignored: [] });

const SETTINGS = [
  setting('firn.merge.mode', 'auto', 'table', 'how changes get into base'),
  setting('firn.optimize.group', 'nightly', 'namespace shop', 'the group of optimizers'),
  setting('firn.tombstone.max-age'),
  setting('firn.new.thing'),
];
const look = { find: '', shown: 'all', place: 'table' } as const;
const keys = (found: { settings: PolicySetting[] }[]) => found.map(({ settings }) => settings.map(({ key }) => key));

describe('settings by area', () => {
  it('come in the order of the areas, unknown ones last', () => {
    expect(byArea(SETTINGS, look).map(({ title }) => title)).toEqual(['When and where jobs run', 'Merging changes', 'Other']);
    expect(keys(byArea(SETTINGS, look))).toEqual([['firn.optimize.group'], ['firn.merge.mode', 'firn.tombstone.max-age'], ['firn.new.thing']]);
  });

  it('are found by every word, wherever it stands', () => {
    expect(keys(byArea(SETTINGS, { ...look, find: 'GROUP optimizers' }))).toEqual([['firn.optimize.group']]);
    expect(keys(byArea(SETTINGS, { ...look, find: 'nightly' }))).toEqual([['firn.optimize.group']]);
    expect(byArea(SETTINGS, { ...look, find: 'group merge' })).toEqual([]);
  });

  it('can be those set here, or those set anywhere', () => {
    expect(keys(byArea(SETTINGS, { ...look, shown: 'own' }))).toEqual([['firn.merge.mode']]);
    expect(keys(byArea(SETTINGS, { ...look, shown: 'changed' }))).toEqual([['firn.optimize.group'], ['firn.merge.mode']]);
    expect(keys(byArea(SETTINGS, { ...look, shown: 'own', place: 'namespace shop' }))).toEqual([['firn.optimize.group']]);
  });
});

it('a value that nobody can read is still set where it stands', () => {
  const misspelled = { ...setting('firn.expire.max-age'), ignored: [{ source: 'table' }] };
  expect(keys(byArea([misspelled], { ...look, shown: 'own' }))).toEqual([['firn.expire.max-age']]);
  expect(keys(byArea([misspelled], { ...look, shown: 'changed' }))).toEqual([['firn.expire.max-age']]);
  expect(byArea([misspelled], { ...look, shown: 'own', place: 'catalog' })).toEqual([]);
});

it('a value comes from a namespace, from the catalog, or from neither', () => {
  expect(['namespace a.b', 'catalog', 'default', 'table'].map(namespaceOf)).toEqual(['a.b', '', undefined, undefined]);
});

describe('values', () => {
  it('have a form that the default tells', () => {
    const form = (usual: string, key = 'firn.a.b') => formOf({ key, default: usual, choices: [] });
    expect(['64 MiB', '10 min', '0.5', '500000', 'UTC'].map((usual) => form(usual))).toEqual(['size', 'duration', 'share', 'count', 'text']);
    expect([form('', 'firn.merge.schedule'), form('', 'firn.optimize.window'), form('', 'firn.ttl.max-age')]).toEqual(['schedule', 'windows', 'duration']);
  });

  it('are picked where the server tells all of them, however an engine has written one', () => {
    const mode = { key: 'firn.merge.mode', default: 'auto', choices: ['auto', 'rewrite'] };
    expect(formOf(mode)).toBe('choice');
    expect(chosen({ value: ' TRUE', choices: ['true', 'false'] })).toBe('true');
    expect(chosen({ value: '10 min', choices: [] })).toBe('10 min');
  });

  it('are said in another unit', () => {
    expect(inOtherWords('64 MiB', 'size')).toBe('67,108,864 bytes');
    expect(inOtherWords('0.25', 'share')).toBe('25 %');
    expect(inOtherWords('500000', 'count')).toBe('500,000');
    expect([inOtherWords('lots', 'size'), inOtherWords('20', 'count'), inOtherWords('10 min', 'duration')]).toEqual([null, null, null]);
  });

  it('of everyday schedules are said in words, others are left alone', () => {
    expect(cronInWords('0 3 * * 0')).toBe('Sundays at 03:00');
    expect(cronInWords('30 4 * * *')).toBe('every day at 04:30');
    expect(cronInWords('0 22 * * 1-5')).toBe('Monday to Friday at 22:00');
    expect(cronInWords('0 6 * * 1,3')).toBe('Mondays, Wednesdays at 06:00');
    expect(cronInWords('*/15 * * * *')).toBe('every 15 min');
    expect(cronInWords('0 3 1 * *')).toBe('on day 1 of each month at 03:00');
    expect(['0 3 1 2 *', '0 */2 * * *', '0 3 * *', 'nonsense'].map(cronInWords)).toEqual([null, null, null, null]);
    expect(inOtherWords('0 22 * * * for 8 h; 0 0 * * 6 for 48 h', 'windows')).toBe('every day at 22:00, for 8 h; Saturdays at 00:00, for 48 h');
  });

  it('of schedules are told with their time zone, and that the default one is spread', () => {
    const schedule = { key: 'firn.ttl.schedule', value: '0 4 * * *', default: '0 4 * * *', choices: [] };
    expect(otherWords({ ...schedule, source: 'table' }, 'Asia/Tokyo')).toBe('every day at 04:00 (Asia/Tokyo)');
    expect(otherWords({ ...schedule, source: 'default' }, 'UTC')).toContain('within six hours');
    expect(otherWords({ ...schedule, key: 'firn.a.b', value: '64 MiB', default: '64 MiB', source: 'default' }, 'UTC')).toBe('67,108,864 bytes');
  });
});
