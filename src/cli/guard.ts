import { guardProcess } from '../process-guard';

// Imported for its effect, before anything else of the program is loaded.
guardProcess();
