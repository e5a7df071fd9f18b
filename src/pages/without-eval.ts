import { z } from 'zod';

// The page's content security policy forbids eval, which the schema library would try. Import this before any schema.
z.config({ jitless: true });
