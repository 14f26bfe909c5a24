import { SERVER, type Need } from '../../lib/access';

/** What rules and their history take: they name tables of all catalogs, and the server sends to their addresses. */
export const NEEDS: Need[] = [{ privilege: 'grant', on: SERVER }];
