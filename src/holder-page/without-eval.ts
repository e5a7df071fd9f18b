import { z } from 'zod';

// The page's policy forbids code made from text; the schema library would try it. Must come before every schema.
z.config({ jitless: true });
