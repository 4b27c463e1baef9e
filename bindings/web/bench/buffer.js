// What one of the packages takes for granted.
import { Buffer } from 'buffer/';

globalThis.Buffer = Buffer;
